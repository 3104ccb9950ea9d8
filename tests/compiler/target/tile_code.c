/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the code of the kernels in a file of tile.funcs, for tests: PTX, or the GPU code of a
 * bundle.
 *
 *     tile-code TARGET text|code FILE.mlir OUT
 *
 * With `code`, `ptxas` translates and one line is written for each kernel: its name, registers,
 * bytes spilt, bytes of shared memory. The exit code is 1 if a kernel spills, 77 without `ptxas`.
 * For an AMD GPU, OUT is the code object itself.
 */
#include "compiler/ir/attributes.h"
#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/target.h"
#include "compiler/target/ptxas.h"
#include "compiler/target/target.h"
#include "compiler/tile/tile.h"
#include "manifests/fatbin.h"
#include "runtime/base/io/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_diag(void *user, const tsr_diag *diag) {
    tsr_buffer text = {0};
    (void)user;
    tsr_diag_format(diag, &text);
    tsr_buffer_append(&text, "", 1);
    fputs(text.bytes, stderr);
    tsr_buffer_finish(&text);
}

static tsr_result write_file(tsr_ctx *ctx, const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    bool done = file && fwrite(bytes, 1, size, file) == size;
    if (file && fclose(file)) done = false;
    if (!done) FAIL(ctx, TSR_IO, "cannot write '%s'", path);
    return TSR_SUCCESS;
}

static tsr_result tell(tsr_ctx *ctx, MlirModule module, const void *code, size_t size,
                       tsr_arena *arena, bool *out_spills) {
    tsr_fatbin fatbin;
    uint32_t index = 0;
    TRY(ctx, tsr_fatbin_decode(ctx, code, size, arena, &fatbin));
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (!tsr_op_is(op, TSR_TILE_FUNC)) continue;
        const tsr_fatbin_kernel *k = &fatbin.kernels[index++];
        printf("%s: %u registers, %u spilt, %u shared\n", tsr_op_symbol(op), k->registers,
               k->spill_bytes, k->shared_bytes + k->static_bytes);
        *out_spills = *out_spills || k->spill_bytes;
    }
    return TSR_SUCCESS;
}

static tsr_result write_object(tsr_ctx *ctx, MlirModule module, const void *code, size_t size,
                               tsr_arena *arena, const char *path, int *out_status) {
    tsr_fatbin fatbin;
    bool spills = false;
    TRY(ctx, tell(ctx, module, code, size, arena, &spills));
    TRY(ctx, tsr_fatbin_decode(ctx, code, size, arena, &fatbin));
    *out_status = spills;
    return write_file(ctx, path, fatbin.images[0].bytes, fatbin.images[0].size_bytes);
}

static tsr_result make(tsr_ctx *ctx, char **arguments, tsr_diag_list *diags, tsr_arena *arena,
                       int *out_status) {
    const tsr_target *target = NULL;
    tsr_ptxas ptxas;
    MlirContext mlir;
    MlirModule module;
    void *text = NULL, *code = NULL;
    size_t size = 0;
    bool spills = false;
    TRY(ctx, tsr_target_find(ctx, arguments[1], &target));
    TRY(ctx, tsr_io_read_file(ctx, arguments[3], 1 << 24, arena, &text, &size));
    TRY(ctx, tsr_mlir_context_create(ctx, diags, &mlir));
    TRY(ctx, tsr_mlir_parse(ctx, mlir, diags, text, size, arguments[3], &module));
    tsr_op_set(mlirModuleGetOperation(module), TSR_TARGET_NAME,
               tsr_attr_make_string(mlir, target->name));
    TRY(ctx, tsr_mlir_verify(ctx, module, diags, "tile"));
    if (strcmp(arguments[2], "text") == 0) {
        char *out = NULL;
        TRY(ctx, tsr_target_dump(ctx, module, target, TSR_TARGET_ASM, arena, &out));
        return write_file(ctx, arguments[4], out, strlen(out));
    }
    TRY(ctx, tsr_target_compile(ctx, module, target, arena, &code, &size));
    if (target->family == TSR_FAMILY_HIP)
        return write_object(ctx, module, code, size, arena, arguments[4], out_status);
    TRY(ctx, tsr_ptxas_find(ctx, NULL, getenv("PATH"), "/usr/local/cuda/bin", arena, &ptxas));
    *out_status = 77;
    if (!ptxas.path) return TSR_SUCCESS;
    TRY(ctx, tsr_ptxas_assemble(ctx, &ptxas, module, target, arena, &code, &size));
    TRY(ctx, tell(ctx, module, code, size, arena, &spills));
    *out_status = spills;
    return write_file(ctx, arguments[4], code, size);
}

int main(int count, char **arguments) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_diag_list diags = {.on_diag = print_diag};
    int status = 0;
    if (count != 5) {
        fprintf(stderr, "usage: tile-code TARGET text|code FILE.mlir OUT\n");
        return 2;
    }
    tsr_result result = make(&ctx, arguments, &diags, &arena, &status);
    if (result.code) {
        fprintf(stderr, "tile-code: %s\n", ctx.error.text);
        return 1;
    }
    return status;
}
