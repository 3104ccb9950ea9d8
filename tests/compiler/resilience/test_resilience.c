/* SPDX-License-Identifier: Apache-2.0
 *
 * Properties that lit cannot test: every file of this folder that parses, and each of its parts,
 * reads back from bytecode to the same text.
 */
#include "compiler/ir/mlir.h"
#include "runtime/base/io/io.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

static void append(MlirStringRef ref, void *user) { tsr_buffer_append(user, ref.data, ref.length); }

/* Writes a module as bytecode and reads it back. */
static void check_bytecode(const char *text, size_t size_bytes, const char *name) {
    tsr_ctx ctx = {0};
    tsr_diag_list list = {0};
    MlirContext mlir = {NULL};
    MlirModule module = {NULL}, again = {NULL};
    tsr_buffer bytes = {0}, first = {0}, second = {0};
    cr_assert_eq(tsr_mlir_context_create(&ctx, &list, &mlir).code, TSR_OK);
    cr_assert_eq(tsr_mlir_parse(&ctx, mlir, &list, text, size_bytes, name, &module).code, TSR_OK,
                 "%s: %s", name, ctx.error.text);
    tsr_mlir_print(mlirModuleGetOperation(module), TSR_PRINT_PRETTY, &first);
    mlirOperationWriteBytecode(mlirModuleGetOperation(module), append, &bytes);
    cr_assert_eq(
        tsr_mlir_parse(&ctx, mlir, &list, bytes.bytes, bytes.size_bytes, "bytecode", &again).code,
        TSR_OK, "%s: %s", name, ctx.error.text);
    tsr_mlir_print(mlirModuleGetOperation(again), TSR_PRINT_PRETTY, &second);
    cr_assert_str_eq(first.bytes, second.bytes, "%s", name);
    cr_assert(strstr(first.bytes, "tessera"), "%s", name);
    tsr_buffer_finish(&bytes);
    tsr_buffer_finish(&first);
    tsr_buffer_finish(&second);
    mlirModuleDestroy(module);
    mlirModuleDestroy(again);
    tsr_mlir_context_destroy(mlir);
    tsr_diag_finish(&list);
}

Test(resilience, bytecode) {
    DIR *folder = opendir(TSR_TEST_FOLDER);
    size_t count = 0;
    cr_assert(folder);
    for (struct dirent *file; (file = readdir(folder));) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        void *text = NULL;
        size_t size_bytes = 0;
        char path[4096];
        size_t length = strlen(file->d_name);
        if (length < 5 || strcmp(file->d_name + length - 5, ".mlir") != 0) continue;
        if (strstr(file->d_name, "invalid")) continue;
        snprintf(path, sizeof path, "%s/%s", TSR_TEST_FOLDER, file->d_name);
        cr_assert_eq(tsr_io_read_file(&ctx, path, 1 << 24, &arena, &text, &size_bytes).code,
                     TSR_OK);
        check_bytecode(text, size_bytes, file->d_name);
        tsr_arena_finish(&arena);
        count++;
    }
    closedir(folder);
    cr_assert_geq(count, 10);
}
