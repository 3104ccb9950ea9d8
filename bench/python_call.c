/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: python_call BUNDLE CALLS
 *
 * Calls entry 'predict' of the digits bundle on 64 rows from C, for python_call.py: for each line
 * of standard input, prints the microseconds of a call, the mean of CALLS calls.
 */
#include "tessera/tessera.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 64, PIXELS = 64, CLASSES = 10 };

static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

int main(int argc, char **argv) {
    static unsigned char images[ROWS][PIXELS];
    static float y[ROWS][CLASSES];
    const tsr_tensor input = {"x", TSR_DTYPE_UI8, {2, {ROWS, PIXELS}}, images};
    const tsr_tensor output = {"y", TSR_DTYPE_F32, {2, {ROWS, CLASSES}}, y};
    const tsr_model_options options = {
        .size_bytes = sizeof options, .threads = 1, .check_finite = TSR_FINITE_OFF};
    tsr_ctx ctx = {0};
    tsr_model *model = NULL;
    char line[64];
    if (argc != 3) return TSR_USAGE;
    long calls = atol(argv[2]);
    tsr_result result = tsr_model_open(&ctx, argv[1], &options, &model);
    if (!result.code) result = tsr_model_initialize(&ctx, model, 0);
    while (!result.code && fgets(line, sizeof line, stdin)) {
        double begin = now_us();
        for (long i = 0; i < calls && !result.code; i++)
            result = tsr_model_call(&ctx, model, "predict", &input, 1, &output, 1);
        printf("%.4f\n", (now_us() - begin) / (double)calls);
        fflush(stdout);
    }
    if (result.code) fprintf(stderr, "python_call: %s\n", ctx.error.text);
    tsr_model_close(&ctx, model);
    return (int)result.code;
}
