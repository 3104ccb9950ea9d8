/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a program while it is compiled: Python's semantics over values that are known, with 64-bit
 * integers. What the library adds are objects, whose class says what operators do.
 *
 *     tsr_evaluator e = {.report = &report, .arena = &arena, .library = find, .user = …};
 *     tsr_evaluate_module(&e, &source, module);
 */
#ifndef TSR_COMPILER_FRONTEND_LANGUAGE_EVALUATE_EVALUATE_H
#define TSR_COMPILER_FRONTEND_LANGUAGE_EVALUATE_EVALUATE_H

#include "compiler/frontend/language/evaluate/value.h"
#include "compiler/frontend/language/syntax/report.h"

/* A call as its callee sees it. */
typedef struct tsr_argument {
    const char *name; /* NULL: by position */
    tsr_value value;
    tsr_span span, name_span; /* of the value; of the name, where it has one */
} tsr_argument;
struct tsr_call {
    const tsr_argument *args; /* those without name first */
    size_t count;
    tsr_span span;      /* of the whole call */
    const char *callee; /* how messages name it */
};

/* A function in C. `self` is the object of a method. */
typedef tsr_value tsr_builtin_run(tsr_evaluator *e, tsr_value self, const tsr_call *call);
struct tsr_builtin {
    const char *name;
    tsr_builtin_run *run;
    const void *row; /* of a table, for `run` */
    tsr_value self;
};

/* The indices of a[b:c:d], as an object of this class in subscripts. */
typedef struct tsr_slice {
    tsr_value lower, upper, step; /* NONE: left out */
} tsr_slice;
extern const tsr_class tsr_slice_class;
static inline const tsr_slice *tsr_value_slice(tsr_value v) {
    bool is = v.kind == TSR_VALUE_OBJECT && v.object->class == &tsr_slice_class;
    return is ? (const tsr_slice *)v.object->data : NULL;
}
/* Python's slice.indices: *out_count items from *out_start on, before *out_stop. False, reported,
 * for wrong types. */
bool tsr_evaluate_slice(tsr_evaluator *e, const tsr_slice *slice, size_t length, tsr_span span,
                        int64_t *out_start, int64_t *out_stop, int64_t *out_step,
                        size_t *out_count);

typedef struct tsr_binding {
    const char *name;
    tsr_value value;
    tsr_span span; /* where it was bound last */
} tsr_binding;
typedef struct tsr_scope {
    tsr_binding *bindings;
    size_t count, capacity;
} tsr_scope;

struct tsr_function {
    const char *name;
    const tsr_ast *node; /* FUNCTION_DEF */
    const tsr_source *source;
    tsr_scope *globals;
    struct tsr_activation *outer;                 /* of the function around it; NULL */
    const tsr_value *defaults, *keyword_defaults; /* of the last parameters; after '*' */
    const tsr_value *annotations; /* of all parameters; POISON: none. Those after '*' last */
    tsr_value returns;            /* the annotation of the result; POISON: none */
    const char *const *locals;    /* names that the body assigns to */
    size_t local_count;
};

/* One call, or the module itself. */
typedef struct tsr_activation {
    const tsr_function *function; /* NULL: the module */
    const tsr_source *source;
    tsr_scope *globals;
    tsr_scope locals;
    struct tsr_activation *outer;  /* around its definition */
    struct tsr_activation *caller; /* NULL: none */
    tsr_span called_at;            /* in the caller's source */
    bool walked;                   /* while values are frozen */
    const struct tsr_for_loop *loop;
    tsr_value returned;
} tsr_activation;

/* A loop that is running; errors name its step. */
typedef struct tsr_for_loop {
    const tsr_ast *target;
    tsr_value item;
    const struct tsr_for_loop *outer;
} tsr_for_loop;

/* The module of parts of models. Its names follow this and a dot in the library. */
#define TSR_EVALUATE_STDLIB "tessera.stdlib"

struct tsr_evaluator {
    tsr_report *report;
    tsr_arena *arena;
    /* A name that the program does not define; POISON: the library has none, either. */
    tsr_value (*library)(void *user, const char *name);
    /* Offers every name of the library, for suggestions. */
    void (*names)(void *user, void (*offer)(void *to, const char *name), void *to);
    /* Runs a def whose parameters have these values; NULL: tsr_evaluate_body. */
    tsr_value (*apply)(tsr_evaluator *e, const tsr_function *f, const tsr_value *values,
                       const tsr_call *call);
    /* The names of a module beside the program; NULL, reported: there is none. */
    const tsr_scope *(*import)(tsr_evaluator *e, const char *name, tsr_span span);
    void *user;
    tsr_activation *frame;
    uint64_t steps;
    unsigned calls, depth;
    tsr_value *frozen;
    size_t frozen_count, frozen_capacity;
    bool open;    /* an import that was refused could have bound any name */
    bool stopped; /* a limit was reached: nothing more is evaluated */
};

/* Runs the statements of a module; its names are in *globals. False if there was an error. */
bool tsr_evaluate_module(tsr_evaluator *e, const tsr_source *source, const tsr_ast *module,
                         tsr_scope *globals);
tsr_value tsr_evaluate_expression(tsr_evaluator *e, const tsr_ast *node);
tsr_value tsr_evaluate_call(tsr_evaluator *e, tsr_value callee, const tsr_call *call);
/* Runs the body of a def in place: the parameters have these values, those after '*' last. */
tsr_value tsr_evaluate_body(tsr_evaluator *e, const tsr_function *f, const tsr_value *values,
                            const tsr_call *call);
size_t tsr_function_parameter_count(const tsr_function *f);
const char *tsr_function_parameter(const tsr_function *f, size_t index);
tsr_value tsr_evaluate_binary(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_value b,
                              tsr_span span);
tsr_value tsr_evaluate_unary(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_span span);
tsr_value tsr_evaluate_subscript(tsr_evaluator *e, tsr_value a, tsr_value index, tsr_span span);
tsr_value tsr_evaluate_attribute(tsr_evaluator *e, tsr_value a, const char *name, tsr_span span);
/* f"{value:spec}"; conversion 's', 'r' or -1. */
bool tsr_evaluate_format(tsr_evaluator *e, tsr_value value, int64_t conversion,
                         const tsr_ast_text *spec, tsr_span span, tsr_buffer *out);
/* Whether a value is true; false, reported, where it is not known: *out_truth is then not set. */
bool tsr_evaluate_truth(tsr_evaluator *e, tsr_value value, tsr_span span, bool *out_truth);
/* The items of a value as an array; NULL, reported, if it has none. */
const tsr_value *tsr_evaluate_items(tsr_evaluator *e, tsr_value value, tsr_span span,
                                    size_t *out_count);

/* Values that code must not change if it runs once for several calls: each list and dict that is
 * reached from a value is frozen, until tsr_evaluate_thaw thaws all but the first `mark`. */
size_t tsr_evaluate_freeze(tsr_evaluator *e, tsr_value value);
size_t tsr_evaluate_freeze_scope(tsr_evaluator *e, const tsr_scope *scope);
void tsr_evaluate_thaw(tsr_evaluator *e, size_t mark);
/* Whether a list or dict can be changed; false, reported, for a frozen one. */
bool tsr_evaluate_can_change(tsr_evaluator *e, tsr_value value, tsr_span span);

/* Names that Python itself has: range, len … POISON: no such name. */
tsr_value tsr_builtin_find(tsr_evaluator *e, const char *name);
/* A method of a value; POISON without a report: it has none. */
tsr_value tsr_method_find(tsr_evaluator *e, tsr_value self, const char *name);
/* Offers the names of the methods of a value. */
void tsr_method_names(tsr_value self, void (*offer)(void *to, const char *name), void *to);

/* Reports at a span of the running code, with the calls and the step of a loop that led there;
 * returns POISON. */
tsr_value tsr_evaluate_fail(tsr_evaluator *e, tsr_span span, tsr_diag_number number,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Adds the calls and steps of loops that led to the running code as notes. */
void tsr_evaluate_note_calls(tsr_evaluator *e, tsr_diag *diag);
/* The same with a fix: the text that should stand in the span; NULL: none. */
tsr_value tsr_evaluate_fail_fix(tsr_evaluator *e, tsr_span span, tsr_diag_number number,
                                const char *fix, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Remembers that memory ran out; returns POISON. */
tsr_value tsr_evaluate_no_memory(tsr_evaluator *e);
/* Counts steps; false, reported once, beyond the limit. */
bool tsr_evaluate_charge(tsr_evaluator *e, uint64_t steps, tsr_span span);
/* Charges for the items of a value, at every level; false beyond the limits. */
bool tsr_evaluate_measure(tsr_evaluator *e, tsr_value value, tsr_span span);
tsr_value tsr_evaluate_object(tsr_evaluator *e, const tsr_class *class, const void *data);
static inline bool tsr_value_is_traced(tsr_value v) {
    return v.kind == TSR_VALUE_OBJECT && v.object->class->traced;
}

#endif
