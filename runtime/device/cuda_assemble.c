/* SPDX-License-Identifier: Apache-2.0
 *
 * A build tool: prints the PTX of the leaf hash kernel for an assembler, and converts the assembled
 * code to C source.
 *
 *     cuda-assemble                   writes the PTX to stdout
 *     cuda-assemble 80=FILE 90=FILE   writes tsr_cuda_leaves_codes, with each file's bytes as the
 *                                     machine code for that architecture
 */
#include "runtime/device/cuda_ptx.h"

#include <stdio.h>
#include <stdlib.h>

enum { CODES_MAX = 16, COLUMNS = 16 };

static int print_text(void) {
    tsr_buffer text = {0};
    tsr_cuda_ptx_leaves(&text);
    bool failed =
        text.failed || fwrite(text.bytes, 1, text.size_bytes - 1, stdout) != text.size_bytes - 1;
    tsr_buffer_finish(&text);
    return failed ? TSR_IO : TSR_OK;
}

static int print_bytes(const char *path, unsigned arch) {
    FILE *file = fopen(path, "rb");
    size_t count = 0;
    if (!file) return TSR_IO;
    printf("static const unsigned char code_%u[] = {", arch);
    for (int byte; (byte = getc(file)) != EOF; count++)
        printf("%s%d,", count % COLUMNS ? " " : "\n    ", byte);
    printf("\n};\n\n");
    bool failed = ferror(file) || !count;
    fclose(file);
    return failed ? TSR_IO : TSR_OK;
}

int main(int argc, char **argv) {
    unsigned archs[CODES_MAX];
    if (argc == 1) return print_text();
    if (argc > CODES_MAX) return TSR_USAGE;
    printf("#include \"runtime/device/cuda_ptx.h\"\n\n");
    for (int i = 1; i < argc; i++) {
        char *path = NULL;
        archs[i - 1] = (unsigned)strtoul(argv[i], &path, 10);
        int code = *path == '=' ? print_bytes(path + 1, archs[i - 1]) : TSR_USAGE;
        if (code) {
            fprintf(stderr, "cuda-assemble: no machine code in '%s'\n", argv[i]);
            return code;
        }
    }
    printf("const tsr_fatbin_image tsr_cuda_leaves_codes[] = {\n");
    for (int i = 0; i + 1 < argc; i++)
        printf("    {TSR_FATBIN_CUBIN, %u, false, code_%u, sizeof code_%u},\n", archs[i], archs[i],
               archs[i]);
    printf("};\nconst uint32_t tsr_cuda_leaves_code_count = %d;\n", argc - 1);
    return fflush(stdout) || ferror(stdout) ? TSR_IO : TSR_OK;
}
