/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: the state of one import, and what its files share.
 */
#ifndef TSR_COMPILER_FRONTEND_LANGUAGE_TRACER_H
#define TSR_COMPILER_FRONTEND_LANGUAGE_TRACER_H

#include "compiler/frontend/language/evaluate/evaluate.h"
#include "compiler/graph/rule.h"
#include "compiler/ir/dims.h"
#include "compiler/ir/mlir.h"
#include "compiler/shim/shim.h"

/* A function that becomes an entry. */
typedef struct tsr_entry {
    tsr_value function;
    const char *kind; /* "train" */
    tsr_value data;   /* a dict: parameter to data set; NONE */
    bool rows_independent;
    tsr_span span;
} tsr_entry;

/* What decorators state about a function. */
typedef struct tsr_promise {
    const tsr_ast *function;
    const char **constraints;
    size_t constraint_count;
    MlirAttribute deterministic; /* null: not stated */
    struct tsr_promise *next;
} tsr_promise;

/* A value of Graph IR that code holds. */
typedef struct tsr_traced {
    MlirValue value; /* null: a parameter of the module */
    MlirType ir;
    tsr_type type;               /* the same */
    const struct tsr_body *body; /* that computes it; NULL: a parameter of the module */
    const char *name;            /* of the parameter, with prefix */
    MlirAttribute init;
    MlirLocation location;
} tsr_traced;

/* A value from outside that a function uses: each call passes it. */
typedef struct tsr_capture {
    const tsr_traced *source;
    MlirValue inner;
} tsr_capture;

/* Code that is being traced: a function of Graph IR, or a region in it. */
typedef struct tsr_body {
    struct tsr_body *outer; /* whose code leads here; NULL: an entry */
    bool function;          /* uses values from outside only as captures */
    MlirBlock block;
    const tsr_activation *frame; /* of its caller */
    tsr_capture *captures;
    size_t capture_count, capture_capacity;
} tsr_body;

typedef struct tsr_tracer {
    tsr_evaluator e; /* its `user` is the tracer */
    MlirContext context;
    MlirModule module;
    tsr_builder builder;
    tsr_body *body; /* NULL: the module runs */
    struct tsr_specialisation *specialisations;
    struct tsr_symbol *symbols; /* of functions */
    tsr_ctx *ctx;
    tsr_diag_list *list;
    const char *folder;         /* of the program, with '/' at its end */
    struct tsr_module *modules; /* that were read, the last one first */
    tsr_entry *entries;
    size_t entry_count, entry_capacity;
    const char *prefix; /* of the names of parameters: "h.3." */
    tsr_promise *promises;
    bool master; /* parameters of small floats have values in f32 */
} tsr_tracer;

static inline tsr_tracer *tsr_tracer_of(tsr_evaluator *e) { return e->user; }

/* ---- objects ---- */
extern const tsr_class tsr_tensor_class;    /* data: tsr_traced */
extern const tsr_class tsr_dtype_class;     /* data: tsr_dtype */
extern const tsr_class tsr_type_class;      /* data: tsr_annotation; NULL: Tensor without […] */
extern const tsr_class tsr_dim_class;       /* data: uint64_t, an open dim */
extern const tsr_class tsr_cache_class;     /* data: tsr_cache; NULL: KVCache without […] */
extern const tsr_class tsr_policy_class;    /* data: tsr_policy */
extern const tsr_class tsr_device_class;    /* data: tsr_policy, too */
extern const tsr_class tsr_state_class;     /* data: tsr_state_policy */
extern const tsr_class tsr_attribute_class; /* data: tsr_library_text; an optimizer, an init rule */

typedef struct tsr_library_text {
    const char *what; /* "an optimizer" */
    const char *text; /* of the attribute, in MLIR */
} tsr_library_text;

/* A tensor that the running code computes. */
tsr_value tsr_tensor_make(tsr_evaluator *e, MlirValue value);
bool tsr_value_is(tsr_value v, const tsr_class *class);
const tsr_traced *tsr_tensor_get(tsr_value v);
/* The value for the running code; null, reported, where that code cannot use it. */
MlirValue tsr_tensor_use(tsr_evaluator *e, tsr_value v, tsr_span span);
tsr_dtype tsr_dtype_get(tsr_value v);
tsr_value tsr_dtype_object(tsr_evaluator *e, tsr_dtype dtype);

/* ---- dims ---- */
/* An int for a known dim. */
tsr_value tsr_dim_object(tsr_evaluator *e, uint64_t dim);
/* A shape: ints and open dims; with `infers`, -1 is TSR_DIM_DYNAMIC. */
bool tsr_argument_dims(tsr_evaluator *e, const tsr_argument *a, bool infers, uint64_t *out,
                       size_t *out_count);

/* ---- types of parameters ---- */
/* Tensor["B", 3, f32]: open dims are names; no element type: any. */
typedef struct tsr_annotation {
    tsr_type type;
    bool leading; /* [..., "D"]: any dims before these */
} tsr_annotation;
bool tsr_annotation_dims(tsr_evaluator *e, const tsr_value *items, size_t count, tsr_span span,
                         tsr_shape *out);
/* Compares arguments with the annotations of parameters. False, reported, if one does not fit. */
bool tsr_annotation_check(tsr_evaluator *e, const tsr_function *f, const tsr_value *values,
                          tsr_span span);
bool tsr_annotation_check_result(tsr_evaluator *e, const tsr_function *f, const tsr_value *values,
                                 tsr_value returned, tsr_span span);
/* Sets what decorators state, and adds the names of dims to the attributes of the arguments, which
 * have at most one each. False: nothing is stated. */
bool tsr_annotation_put(tsr_tracer *t, const tsr_function *f, const tsr_value *values,
                        MlirOperation func, MlirAttribute *attrs);

/* ---- policies ---- */
enum { TSR_POLICY_OF_TYPES = 1, TSR_POLICY_OF_CACHES = 2, TSR_POLICY_OF_STATES = 4 };
typedef struct tsr_policy {
    const char *name;
    unsigned of;
    tsr_dtype dtype; /* of accum */
} tsr_policy;
typedef struct tsr_state_policy {
    bool master;
} tsr_state_policy;
/* NULL: the value is no policy. */
const tsr_policy *tsr_policy_get(tsr_value v);
static inline const tsr_state_policy *tsr_state_get(tsr_value v) { return v.object->data; }
tsr_value tsr_policy_refuse(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_value b,
                            tsr_span span);
/* Parameters of bf16 and f16 become parameters of f32 that are cast where they are read. */
void tsr_master_make(tsr_tracer *t);

/* ---- caches ---- */
typedef struct tsr_cache {
    tsr_type type;  /* batch, heads, room for tokens, width */
    tsr_value k, v; /* POISON: it is empty */
    bool rolling;
} tsr_cache;
/* A cache with tokens; NULL for other values. */
static inline const tsr_cache *tsr_cache_get(tsr_value v) {
    const tsr_cache *c = tsr_value_is(v, &tsr_cache_class) ? v.object->data : NULL;
    return c && c->k.kind ? c : NULL;
}
tsr_value tsr_cache_replace(tsr_evaluator *e, tsr_value self, const MlirValue *values, size_t *at);
bool tsr_cache_same(const tsr_object *a, const tsr_object *b);
bool tsr_cache_check(tsr_evaluator *e, tsr_value annotation, tsr_value v, const char *name,
                     tsr_span span);

/* ---- ops ---- */
/* Emits an op with `count` results at the span. The op's rule says the types of the results, unless
 * they are declared. False, reported, if it refuses the operands. */
bool tsr_trace_op(tsr_evaluator *e, tsr_span span, const char *name, size_t operand_count,
                  const MlirValue *operands, const tsr_attr *attrs, size_t count,
                  const tsr_type *declared, MlirValue *out_results);
/* The same for one result. */
tsr_value tsr_trace(tsr_evaluator *e, tsr_span span, const char *name, size_t operand_count,
                    const MlirValue *operands, const tsr_attr *attrs, const tsr_type *declared);
/* A tensor; a number or list of numbers becomes a constant with the element type of `like`. Null,
 * reported, for other values. */
MlirValue tsr_trace_operand(tsr_evaluator *e, tsr_value v, tsr_value like, tsr_span span);
/* A tensor of one value. */
tsr_value tsr_trace_fill(tsr_evaluator *e, tsr_span span, const tsr_type *type, double value);
/* The place of a span of the running code, with the calls in the function of Graph IR. */
MlirLocation tsr_trace_location(tsr_evaluator *e, tsr_span span);
MlirLocation tsr_trace_locate(const tsr_tracer *t, const tsr_source *source, tsr_span span);

/* ---- functions ---- */
/* `apply` of the evaluator: a call of a function with tensors is a call in Graph IR, of one
 * function for each signature. */
tsr_value tsr_trace_apply(tsr_evaluator *e, const tsr_function *f, const tsr_value *values,
                          const tsr_call *call);
/* A symbol for a function that is called `name` in the program; NULL if memory runs out. */
const char *tsr_symbol_make(tsr_tracer *t, const char *name);
/* Opens the function of Graph IR for `f`, and begins to trace its body: a function whose caller is
 * the running code. */
MlirOperation tsr_trace_open(tsr_tracer *t, tsr_body *body, const tsr_function *f,
                             const char *symbol, size_t count, const MlirType *types);
/* Ends it with these results. */
void tsr_trace_close(tsr_tracer *t, MlirOperation func, size_t count, const MlirValue *results);

/* ---- tensors in tuples, lists and dicts ---- */
typedef struct tsr_leaves {
    tsr_value *items; /* in the order of items and entries */
    size_t count, capacity;
} tsr_leaves;
void tsr_leaves_collect(tsr_evaluator *e, tsr_value value, tsr_leaves *out);
/* The same tuples, lists and dicts with other tensors: those of `values`, from *at on. */
tsr_value tsr_leaves_replace(tsr_evaluator *e, tsr_value value, const MlirValue *values,
                             size_t *at);

/* ---- the library ---- */
tsr_value tsr_library_find(void *user, const char *name);
void tsr_library_names(void *user, void (*offer)(void *to, const char *name), void *to);

/* The functions of rows OTHER and STDLIB, the values of rows NAME. */
#define OTHER(what, parameters, about, example) tsr_builtin_run tsr_run_##what;
#define STDLIB(what, parameters, about, example) tsr_builtin_run tsr_stdlib_##what;
#define NAME(what, about, example) tsr_value tsr_name_##what(tsr_evaluator *e);
#include "compiler/frontend/language/trace/library.def"

/* ---- entries ---- */
tsr_value tsr_entry_decorate(tsr_evaluator *e, tsr_value self, const tsr_call *call);
void tsr_entry_trace(tsr_tracer *t, const tsr_entry *entry);

/* ---- arguments ---- */
enum { TSR_WORD_MAX = 40 };
/* The word at an index of a list of words ("x axis:i64 eps?"); false after the last one. */
bool tsr_words_find(const char *words, size_t index, char out[static TSR_WORD_MAX]);
/* The same without type and '?': the name of a parameter. */
bool tsr_words_parameter(const char *words, size_t index, char out[static TSR_WORD_MAX]);
/* Reads arguments by the names in `parameters` ("x axis eps"): out[i] is POISON where one is not
 * given. False, reported, for another name or too many. */
bool tsr_call_read(tsr_evaluator *e, const tsr_call *call, const char *parameters,
                   const tsr_argument **out, size_t out_size);
/* Whether the argument is given; reported if not. */
bool tsr_call_need(tsr_evaluator *e, const tsr_call *call, const tsr_argument *a, const char *name);
/* "expected …, not …"; returns false. */
bool tsr_argument_refuse(tsr_evaluator *e, const tsr_argument *a, const char *expected);
/* The value of an argument in a type; false, reported, if it has another one. */
bool tsr_argument_integers(tsr_evaluator *e, const tsr_argument *a, size_t limit, int64_t *out,
                           size_t *out_count);
bool tsr_argument_tensor(tsr_evaluator *e, const tsr_argument *a, MlirValue *out);
bool tsr_argument_dtype(tsr_evaluator *e, const tsr_argument *a, tsr_dtype *out);
/* A shape and, if `dtype` is not NULL, an element type. */
bool tsr_argument_type(tsr_evaluator *e, const tsr_argument *shape, const tsr_argument *dtype,
                       tsr_type *out);
bool tsr_argument_real(tsr_evaluator *e, const tsr_argument *a, double *out);

#endif
