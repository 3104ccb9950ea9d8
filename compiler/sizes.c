/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/sizes.h"

#include "compiler/frontend/onnx/import.h"
#include "compiler/ir/attributes.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

static MlirAttribute make_sizes(MlirContext context, const tsr_dim_binding *dim) {
    if (dim->size_count > 1) return tsr_attr_make_i64s(context, dim->size_count, dim->sizes);
    MlirAttribute size = tsr_attr_make_i64(context, (int64_t)dim->size);
    if (!dim->low) return size;
    MlirNamedAttribute range[] = {{mlirIdentifierGet(context, tsr_ref("high")), size},
                                  {mlirIdentifierGet(context, tsr_ref("low")),
                                   tsr_attr_make_i64(context, (int64_t)dim->low)}};
    return mlirDictionaryAttrGet(context, TSR_COUNT(range), range);
}

/* The symbol of a dim whose size the program does not have yet; NULL if an ONNX model was imported
 * with its size. */
static const char *symbol_of(const tsr_compile_options *options, tsr_arena *arena,
                             const tsr_dim_binding *dim) {
    char symbol[TSR_DIM_SYMBOL_MAX + 1];
    if (!tsr_onnx_is_model(options->source_path)) return dim->symbol;
    if (!dim->low && dim->size_count == 1) return NULL;
    tsr_onnx_symbol(dim->symbol, symbol);
    const char *name = tsr_arena_strdup(arena, symbol);
    TSR_NEED(name);
    return name;
}

void tsr_sizes_note(const tsr_compile_options *options, tsr_arena *arena, MlirModule module) {
    MlirContext context = mlirModuleGetContext(module);
    MlirNamedAttribute *sizes = TSR_NEW(arena, MlirNamedAttribute, options->dim_count + 1);
    intptr_t count = 0;
    TSR_NEED(sizes);
    for (size_t i = 0; i < options->dim_count; i++) {
        const char *symbol = symbol_of(options, arena, &options->dims[i]);
        if (symbol)
            sizes[count++] = mlirNamedAttributeGet(mlirIdentifierGet(context, tsr_ref(symbol)),
                                                   make_sizes(context, &options->dims[i]));
    }
    if (count)
        tsr_op_set(mlirModuleGetOperation(module), TSR_SIZES_NAME,
                   mlirDictionaryAttrGet(context, count, sizes));
}
