/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares two bundles as tessera-aot tune does; prints the result and the reason.
 *
 *     tune_measure SAFE CANDIDATE TIMEOUT_MS
 */
#include "tools/aot/tune/measure.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 4) return 6;
    tsr_ctx ctx = {0};
    const tsr_tune_round round = {.safe = argv[1],
                                  .candidate = argv[2],
                                  .samples = 1,
                                  .timeout_ns = strtoull(argv[3], NULL, 10) * 1000000};
    tsr_result result = tsr_tune_cpu.measure(&ctx, &round);
    printf("%s\n", result.code ? ctx.error.text : "same");
    return (int)result.code;
}
