/* SPDX-License-Identifier: Apache-2.0
 *
 * round_trip FOLDER...: every module of the .mlir files and pages in the folders that is accepted
 * unchanged is printed in its own syntax, in the generic form and as bytecode, and read again; the
 * module must be the same. Fails if no module has some op of our dialects.
 */
#include "compiler/ir/mlir.h"
#include "tests/compiler/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 1024 };

static tsr_diag_list diags;
static MlirContext context;
static const char *names[NAMES_MAX];
static bool seen[NAMES_MAX];
static size_t name_count, modules, wrong;

static MlirWalkResult note_op(MlirOperation op, void *user) {
    (void)user;
    for (size_t i = 0; i < name_count; i++)
        if (strcmp(tsr_op_name(op), names[i]) == 0) seen[i] = true;
    return MlirWalkResultAdvance;
}

static MlirModule parse(const char *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    MlirModule module = {NULL};
    tsr_diag_finish(&diags);
    tsr_result result =
        tsr_mlir_parse(&ctx, context, &diags, bytes, size_bytes, "part.mlir", &module);
    return result.code ? (MlirModule){NULL} : module;
}

static void print(MlirModule module, tsr_print_form form, tsr_buffer *out) {
    tsr_mlir_print(mlirModuleGetOperation(module), form, out);
}

/* A rule in the dictionary of attributes may lack the tensor's type, which its text always has: the
 * generic form then differs after reading. */
static bool has_untyped_rule(const char *generic) {
    static const char rule[] = "init = #tessera.";
    for (const char *at = generic; (at = strstr(at, rule)) != NULL; at++) {
        const char *end = strchr(at, '>');
        if (end && strncmp(end, "> :", 3) != 0) return true;
    }
    return false;
}

/* The module read from `written` must print as both texts. */
static void read_again(const char *path, const char *form, const tsr_buffer *written,
                       const tsr_buffer *pretty, const tsr_buffer *generic) {
    tsr_buffer again[2] = {{0}, {0}};
    MlirModule module = parse(written->bytes, written->size_bytes);
    bool same = !mlirModuleIsNull(module);
    if (same) {
        print(module, TSR_PRINT_PRETTY, &again[0]);
        print(module, TSR_PRINT_GENERIC, &again[1]);
        same = strcmp(again[0].bytes, pretty->bytes) == 0 &&
               (has_untyped_rule(generic->bytes) || strcmp(again[1].bytes, generic->bytes) == 0);
        mlirModuleDestroy(module);
    }
    if (!same) {
        wrong++;
        fprintf(stderr, "%s: another module after reading its %s\n--- before\n%s--- after\n%s",
                path, form, pretty->bytes, again[0].bytes ? again[0].bytes : "(not read)\n");
    }
    tsr_buffer_finish(&again[0]);
    tsr_buffer_finish(&again[1]);
}

static void check_part(const char *path, const char *text, size_t size_bytes, void *user) {
    (void)user;
    tsr_buffer pretty = {0}, generic = {0}, bytecode = {0};
    MlirModule module = parse(text, size_bytes);
    if (mlirModuleIsNull(module)) return;
    modules++;
    mlirOperationWalk(mlirModuleGetOperation(module), note_op, NULL, MlirWalkPreOrder);
    print(module, TSR_PRINT_PRETTY, &pretty);
    print(module, TSR_PRINT_GENERIC, &generic);
    tsr_mlir_write_bytecode(module, &bytecode);
    mlirModuleDestroy(module);
    read_again(path, "text", &pretty, &pretty, &generic);
    read_again(path, "generic form", &generic, &pretty, &generic);
    read_again(path, "bytecode", &bytecode, &pretty, &generic);
    tsr_buffer_finish(&pretty);
    tsr_buffer_finish(&generic);
    tsr_buffer_finish(&bytecode);
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {0};
    size_t met = 0;
    if (tsr_mlir_context_create(&ctx, &diags, &context).code) return 1;
    name_count = corpus_op_names(context, names, NAMES_MAX);
    TSR_ASSERT(name_count <= NAMES_MAX);
    for (int i = 1; i < argc; i++)
        if (!corpus_each(argv[i], check_part, NULL)) wrong++;
    for (size_t i = 0; i < name_count; i++) {
        met += seen[i];
        if (!seen[i]) fprintf(stderr, "%s stands in no module that is read again\n", names[i]);
    }
    printf("%zu of %zu ops, in %zu modules\n", met, name_count, modules);
    tsr_mlir_context_destroy(context);
    tsr_diag_finish(&diags);
    return wrong || met < name_count || !name_count;
}
