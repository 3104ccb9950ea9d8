/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer's hooks for the target of this program.
 *
 *     fuzz -seeds=FOLDER                  writes valid seed inputs
 *     fuzz [libFuzzer's options] FOLDER   fuzzes; prints the number of executions and the share of
 *                                         them that passed the header checks at the end
 */
#include "tests/fuzz/fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t executions, passed;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size_bytes, size_t size_max,
                               unsigned int seed);

static void report(void) {
    if (!executions) return;
    fprintf(stderr, "fuzz: %s: %" PRIu64 " executions, %.1f %% passed the header checks\n",
            fuzz_the_target.name, executions, 100.0 * (double)passed / (double)executions);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    for (int i = 1; i < *argc; i++) {
        if (strncmp((*argv)[i], "-seeds=", 7) != 0) continue;
        fuzz_the_target.seed((*argv)[i] + 7);
        exit(0);
    }
    atexit(report);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    executions++;
    passed += fuzz_the_target.run(bytes, size_bytes);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size_bytes, size_t size_max,
                               unsigned int seed) {
    return fuzz_the_target.mutate(bytes, size_bytes, size_max, seed);
}
