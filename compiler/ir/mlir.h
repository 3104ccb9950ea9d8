/* SPDX-License-Identifier: Apache-2.0
 *
 * Checked helpers over the MLIR C API, which crashes on misuse: contexts, parsing and printing,
 * reading types and attributes, walking, building ops, running passes. The rest of the compiler
 * uses these functions wherever one exists.
 *
 * Readers accept null attributes and attributes of the wrong kind and say so by returning false.
 * Builders assert: a wrong op name, type or attribute there is a bug of ours.
 */
#ifndef TSR_COMPILER_IR_MLIR_H
#define TSR_COMPILER_IR_MLIR_H

#include "compiler/diag/diag.h"
#include "compiler/ir/dims.h"
#include "compiler/ir/op.h"
#include "runtime/base/buffer.h"
#include "runtime/base/tensor.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/IR.h>

/* ---- contexts, modules ----------------------------------------------------------------------- */

/* Creates a context with all dialects that the compiler uses loaded and without threads (so that
 * it may be forked). Diagnostics go to `list`, which must outlive the context. */
TSR_RESULT tsr_mlir_context_create(tsr_ctx *ctx, tsr_diag_list *list, MlirContext *out_context);
void tsr_mlir_context_destroy(MlirContext context); /* accepts null */

/* Parses text or bytecode, within the limits of source_limits.h; text is followed by a NUL and
 * borrowed until the list is finished. Locations carry `name`: pass the file's base name, so that
 * the output does not depend on the folder. TSR_COMPILE on error, with diagnostics in the list. */
TSR_RESULT tsr_mlir_parse(tsr_ctx *ctx, MlirContext context, tsr_diag_list *list,
                          const char *source, size_t size_bytes, const char *name,
                          MlirModule *out_module);
typedef enum tsr_print_form {
    TSR_PRINT_PRETTY,
    TSR_PRINT_GENERIC,
    TSR_PRINT_LOCATIONS = 2, /* or this flag: with the location of every op */
} tsr_print_form;
/* Appends the module's bytecode. */
void tsr_mlir_write_bytecode(MlirModule module, tsr_buffer *out);
/* Appends the op's text, with newline. */
void tsr_mlir_print(MlirOperation op, tsr_print_form form, tsr_buffer *out);

/* ---- names ----------------------------------------------------------------------------------- */

MlirStringRef tsr_ref(const char *text);
bool tsr_ref_is(MlirStringRef ref, const char *text);
/* "tessera.matmul", for texts and for building an op of the same name; code that depends on the op
 * asks for its number (op.h). Lives as long as the context; NUL-terminated. */
const char *tsr_op_name(MlirOperation op);
/* For ops of dialects without declarations, which have no number. */
bool tsr_op_is_named(MlirOperation op, const char *name);
/* The symbol name of a function or group, or "". Lives as long as the context. */
const char *tsr_op_symbol(MlirOperation op);

/* ---- types ----------------------------------------------------------------------------------- */

/* A tensor, memref or vector type of one of our element types; its dims: dims.h. */
typedef struct tsr_type {
    tsr_dtype dtype;
    tsr_shape shape;
} tsr_type;

/* False if the type is unranked, not shaped, of another element type, or of rank > TSR_RANK_MAX. */
bool tsr_type_read(MlirType type, tsr_type *out_type);
bool tsr_value_type(MlirValue value, tsr_type *out_type);
/* True if every dim is known. */
bool tsr_type_is_static(const tsr_type *type);
/* True if every dim is known or open: none is dynamic. */
bool tsr_type_is_inferred(const tsr_type *type);
MlirType tsr_dtype_make(MlirContext context, tsr_dtype dtype);
/* A ranked tensor; the encoding #tessera.dims has its open dims. */
MlirType tsr_type_make(MlirContext context, const tsr_type *type);

/* Buffers are memrefs with static dims that are dense except for a pitch: the number of elements
 * from one row (the last dim) to the next, the same for all rows. 0: dense. Returns a memref of
 * that layout. */
MlirType tsr_buffer_make(MlirType element, uint32_t rank, const int64_t *dims, int64_t pitch);
/* False if the layout is a different one. */
bool tsr_buffer_pitch(MlirType buffer, int64_t *out_pitch);
/* Returns the pitch of a buffer of at least one dim; for a dense buffer that is its last dim. */
int64_t tsr_buffer_row(MlirType buffer);
/* The shape of the memory: the last dim is the pitch. */
tsr_shape tsr_shape_with_pitch(const tsr_shape *shape, int64_t pitch);
/* `shape` without the ascending axes: of the result of a reduction over them. */
tsr_shape tsr_shape_remove(const tsr_shape *shape, size_t count, const int64_t *axes);
tsr_type tsr_type_scalar(tsr_dtype dtype);
/* "64x?xNx(N + 1)xf32"; an expression for which there is no room is "…". Returns `out_text`. */
const char *tsr_type_text(const tsr_type *type, char out_text[static TSR_TYPE_TEXT_MAX]);

/* ---- attributes of ops ----------------------------------------------------------------------- */

MlirAttribute tsr_op_attr(MlirOperation op, const char *name); /* null if absent */
bool tsr_op_has(MlirOperation op, const char *name);
/* NUL-terminated, borrowed from the context; NULL if absent or not a string. */
const char *tsr_op_string(MlirOperation op, const char *name);
/* A bool attribute that is true, or a unit attribute; false if absent. */
bool tsr_op_flag(MlirOperation op, const char *name);
bool tsr_op_i64(MlirOperation op, const char *name, int64_t *out_value);
bool tsr_op_f64(MlirOperation op, const char *name, double *out_value); /* any float type */
/* An array of integers ([0, 1] or array<i64: 0, 1>). False if absent, of another kind, or longer
 * than `limit`. */
bool tsr_op_i64s(MlirOperation op, const char *name, size_t limit, int64_t *out_values,
                 size_t *out_count);
const char *tsr_attr_string(MlirAttribute attr); /* empty if it contains a NUL */
bool tsr_attr_i64(MlirAttribute attr, int64_t *out_value);
void tsr_op_set(MlirOperation op, const char *name, MlirAttribute value);

MlirAttribute tsr_attr_make_string(MlirContext context, const char *text);
MlirAttribute tsr_attr_make_i64(MlirContext context, int64_t value);
MlirAttribute tsr_attr_make_i32(MlirContext context, int32_t value);
MlirAttribute tsr_attr_make_bool(MlirContext context, bool value);
MlirAttribute tsr_attr_make_unit(MlirContext context);
MlirAttribute tsr_attr_make_i64s(MlirContext context, size_t count, const int64_t *values);
MlirAttribute tsr_attr_make_type(MlirType type);
MlirAttribute tsr_attr_make_symbol(MlirContext context, const char *name);
/* dense<value> of a float or integer type; the value is rounded to it. */
MlirAttribute tsr_attr_make_splat(MlirContext context, const tsr_type *type, double value);
/* Elements of a dense attribute, row-major, in our layout (i1 one byte), in the arena. False if the
 * attribute is not dense elements of one of our types. */
bool tsr_attr_elements(MlirAttribute attr, tsr_arena *arena, tsr_type *out_type, void **out_data);
/* Returns the element of a splat as an attribute of its own; null if the attribute is not a splat.
 * Equal elements of one type are one attribute. */
MlirAttribute tsr_attr_splat_element(MlirAttribute attr);
/* True if every element is the same and a double can represent it: i64 values beyond 2^53 may not
 * qualify. */
bool tsr_attr_splat(MlirAttribute attr, double *out_value);
/* dense<…> from elements in our layout. */
MlirAttribute tsr_attr_make_elements(MlirContext context, const tsr_type *type, const void *data);

/* ---- errors ---------------------------------------------------------------------------------- */

/* Emits "<op>: <text>" at the op's location; returns false. */
bool tsr_op_emit_error(MlirOperation op, tsr_diag_number number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* True if string attribute `name` is absent or one of `words`, which end in NULL. Otherwise emits
 * TSR_DIAG_PLAN_WORD. */
bool tsr_op_check_word(MlirOperation op, const char *name, const char *const *words);

/* ---- walking --------------------------------------------------------------------------------- */

/* Iterates over the ops of a block, in order; the body may erase `op`, not the op after it. */
#define TSR_FOR_EACH_OP(op, block)                                                                 \
    for (MlirOperation op = mlirBlockGetFirstOperation(block), op##_next_ = tsr_op_next_(op);      \
         !mlirOperationIsNull(op); op = op##_next_, op##_next_ = tsr_op_next_(op))
MlirOperation tsr_op_next_(MlirOperation op);

/* The first block of region 0. Asserts that there is one. */
MlirBlock tsr_op_body(MlirOperation op);
bool tsr_op_has_body(MlirOperation op);
/* The op that makes a value; null for a block argument. */
MlirOperation tsr_value_owner(MlirValue value);
bool tsr_value_is_used(MlirValue value);
MlirValue tsr_op_operand(MlirOperation op, size_t index);
MlirValue tsr_op_result(MlirOperation op, size_t index);
size_t tsr_op_operand_count(MlirOperation op);
size_t tsr_op_result_count(MlirOperation op);
/* Finds an op by symbol name in a module's body; null if absent. */
MlirOperation tsr_module_find(MlirModule module, const char *symbol);

/* ---- building -------------------------------------------------------------------------------- */

/* The insertion point of new ops: before `before`, or at the end of `block` if that is null. */
typedef struct tsr_builder {
    MlirContext context;
    MlirBlock block;
    MlirOperation before;
    MlirLocation location;
} tsr_builder;

tsr_builder tsr_builder_before(MlirOperation op); /* uses the op's location */
tsr_builder tsr_builder_at_end(MlirBlock block, MlirLocation location);

typedef struct tsr_attr {
    const char *name;
    MlirAttribute value;
} tsr_attr;

typedef struct tsr_op_desc {
    const char *name;
    size_t operand_count, result_count, attr_count, region_count;
    const MlirValue *operands;
    const MlirType *results;
    const tsr_attr *attrs;
    MlirRegion *regions; /* ownership passes to the op */
} tsr_op_desc;
MlirOperation tsr_build(tsr_builder *builder, const tsr_op_desc *desc);
/* The common case: `operand_count` operands, one result, and attributes that end at one without a
 * name (or NULL). */
MlirValue tsr_build_value(tsr_builder *builder, const char *name, const MlirValue *operands,
                          size_t operand_count, MlirType result, const tsr_attr *attrs);

/* ---- passes ---------------------------------------------------------------------------------- */

/* Runs a pass by its name in tessera-opt ("canonicalize", "tessera-autodiff"), or several
 * ("cse,symbol-dce"), and the verifier after each pass that changed the module since it was last
 * verified. TSR_COMPILE on error. */
TSR_RESULT tsr_mlir_run_pass(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list,
                             const char *pipeline);
/* When to print the whole module on standard error. */
typedef enum tsr_print_ir {
    TSR_PRINT_IR_NEVER,
    TSR_PRINT_IR_AFTER_ALL,
    TSR_PRINT_IR_AFTER_CHANGE, /* only where the pass changed it */
} tsr_print_ir;
typedef struct tsr_pass_options {
    tsr_print_ir print;
    /* Called after each pass that succeeded, with its name; may be NULL. */
    void (*after_pass)(void *user, const char *pass, MlirModule module);
    void *user;
} tsr_pass_options;
/* The same; `options` may be NULL. */
TSR_RESULT tsr_mlir_run_passes(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list,
                               const char *pipeline, const tsr_pass_options *options);
TSR_RESULT tsr_mlir_verify(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list, const char *stage);

/* One of our passes: rewrites a module; false after emitting an error. */
typedef bool (*tsr_pass_fn)(MlirModule module);
typedef struct tsr_pass {
    const char *name; /* no leading dash */
    const char *summary;
    tsr_pass_fn run;
} tsr_pass;
extern const tsr_pass tsr_passes[]; /* generated from passes.def */
extern const size_t tsr_pass_count;
/* A name for a sequence of passes. */
typedef struct tsr_pipeline {
    const char *name, *summary, *passes;
} tsr_pipeline;
extern const tsr_pipeline tsr_pipelines[]; /* generated from pipelines.def */
extern const size_t tsr_pipeline_count;
/* Lists MLIR's general passes on standard output; call it before any pass is run. Returns 0, or
 * the errno of standard output. */
int tsr_passes_print_general(void);

#endif
