/* SPDX-License-Identifier: Apache-2.0
 *
 * seeds config|program FOLDER: valid inputs to start fuzzing from, one a file.
 */
#include "tests/fuzz/seeds.h"

#include "tests/manifests/random_manifests.h"

#include <stdio.h>
#include <string.h>

static bool put(const char *folder, unsigned number, const void *bytes, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%u", folder, number);
    FILE *file = fopen(path, "wb");
    return file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0;
}

int main(int argc, char **argv) {
    if (argc != 3) return 6;
    for (unsigned i = 0; i < 16; i++) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        bool is_program = strcmp(argv[1], "program") == 0;
        tsr_config config = is_program ? random_config(FUZZ_CONFIG_SEED, FUZZ_CONFIG_SIZE, &arena)
                                       : random_config(i, i, &arena);
        char *json = NULL;
        void *bytes = NULL;
        size_t size = 0;
        if (is_program) {
            tsr_program program = random_program(i, i % 6, &config, &arena);
            if (tsr_program_encode(&ctx, &program, &arena, &bytes, &size).code) return 1;
        } else if (tsr_config_encode(&ctx, &config, &arena, &json, &size).code) {
            return 1;
        }
        if (!put(argv[2], i, is_program ? bytes : json, size)) return 7;
        tsr_arena_finish(&arena);
    }
    return 0;
}
