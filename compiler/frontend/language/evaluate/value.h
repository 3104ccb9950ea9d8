/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that are known while a program is compiled. They live in the arena of the evaluation.
 */
#ifndef TSR_COMPILER_FRONTEND_LANGUAGE_EVALUATE_VALUE_H
#define TSR_COMPILER_FRONTEND_LANGUAGE_EVALUATE_VALUE_H

#include "compiler/frontend/language/syntax/ast.h"

typedef enum tsr_value_kind {
    TSR_VALUE_POISON, /* the result of what failed; reported */
    TSR_VALUE_NONE,
    TSR_VALUE_ELLIPSIS,
    TSR_VALUE_BOOL,
    TSR_VALUE_INTEGER,
    TSR_VALUE_FLOAT,
    TSR_VALUE_TEXT,
    TSR_VALUE_TUPLE,
    TSR_VALUE_LIST,
    TSR_VALUE_DICT,
    TSR_VALUE_RANGE,
    TSR_VALUE_FUNCTION, /* a def of the program */
    TSR_VALUE_BUILTIN,  /* of Python or the library; also a method with its object */
    TSR_VALUE_OBJECT,   /* of the library: a tensor, a type, an optimizer */
} tsr_value_kind;

typedef struct tsr_value tsr_value;
typedef struct tsr_list tsr_list;
typedef struct tsr_dict tsr_dict;
typedef struct tsr_function tsr_function;
typedef struct tsr_builtin tsr_builtin;
typedef struct tsr_class tsr_class;
typedef struct tsr_evaluator tsr_evaluator;
typedef struct tsr_call tsr_call;

typedef struct tsr_range {
    int64_t start, stop, step;
    uint64_t count;
} tsr_range;

typedef struct tsr_object {
    const tsr_class *class;
    const void *data;
} tsr_object;

struct tsr_value {
    tsr_value_kind kind;
    union {
        bool truth;
        int64_t integer;
        double real;
        const tsr_ast_text *text;
        tsr_list *list; /* also of a tuple */
        tsr_dict *dict;
        const tsr_range *range;
        const tsr_function *function;
        const tsr_builtin *builtin;
        const tsr_object *object;
    };
};

struct tsr_list {
    tsr_value *items;
    size_t count, capacity;
    bool frozen; /* nothing may change it any more */
};

typedef struct tsr_dict_entry {
    tsr_value key, value;
    uint64_t hash;
    bool removed;
} tsr_dict_entry;
/* In the order of insertion. */
struct tsr_dict {
    tsr_dict_entry *entries;
    size_t count, capacity; /* with removed ones */
    size_t live;
    uint32_t *slots; /* index + 1 of an entry; 0: free */
    size_t slot_count;
    bool frozen;
};

/* What operations mean for objects; NULL: they have none. The functions report what they refuse. */
struct tsr_class {
    const char *name; /* "a tensor" */
    bool traced;      /* the value is not known while the program is compiled */
    tsr_value (*unary)(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_span span);
    /* One of a and b is of the class. Also comparisons. */
    tsr_value (*binary)(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_value b, tsr_span span);
    /* POISON without a report: there is no such attribute. */
    tsr_value (*attribute)(tsr_evaluator *e, tsr_value self, const char *name, tsr_span span);
    const char *const *attributes; /* their names, for suggestions, up to NULL; or NULL */
    tsr_value (*subscript)(tsr_evaluator *e, tsr_value self, tsr_value index, tsr_span span);
    tsr_value (*call)(tsr_evaluator *e, tsr_value self, const tsr_call *call);
    /* `with` of the object; false, reported, if it cannot begin. */
    bool (*enter)(tsr_evaluator *e, tsr_value self, tsr_span span);
    void (*leave)(tsr_evaluator *e, tsr_value self);
    /* False, reported: it is not known. NULL: true. */
    bool (*truth)(tsr_evaluator *e, tsr_value self, tsr_span span, bool *out);
    size_t (*length)(tsr_value self); /* how many values it can be unpacked into; NULL: none */
    void (*repr)(tsr_value self, tsr_buffer *out);
};

#define TSR_POISON ((tsr_value){.kind = TSR_VALUE_POISON})
#define TSR_NONE ((tsr_value){.kind = TSR_VALUE_NONE})
static inline tsr_value tsr_value_bool(bool truth) {
    return (tsr_value){.kind = TSR_VALUE_BOOL, .truth = truth};
}
static inline tsr_value tsr_value_integer(int64_t integer) {
    return (tsr_value){.kind = TSR_VALUE_INTEGER, .integer = integer};
}
static inline tsr_value tsr_value_real(double real) {
    return (tsr_value){.kind = TSR_VALUE_FLOAT, .real = real};
}
/* Copies the text. POISON if memory runs out, as all functions that make values. */
tsr_value tsr_value_text(tsr_arena *arena, const char *bytes, size_t size_bytes);
tsr_value tsr_value_list(tsr_arena *arena, tsr_value_kind kind, size_t capacity);
tsr_value tsr_value_dict(tsr_arena *arena);
tsr_value tsr_value_range(tsr_arena *arena, int64_t start, int64_t stop, int64_t step);
bool tsr_list_append(tsr_arena *arena, tsr_list *list, tsr_value item);

/* How messages name the type: "int", "a tensor". */
const char *tsr_value_type_name(tsr_value value);
static inline bool tsr_value_is_text(tsr_value v) { return v.kind == TSR_VALUE_TEXT; }
/* A bool or integer, as an integer. */
bool tsr_value_as_integer(tsr_value value, int64_t *out);
/* A bool, integer or float, as a float. */
bool tsr_value_as_real(tsr_value value, double *out);
/* Python's truth of a value; objects are true. */
bool tsr_value_truth(tsr_value value);
/* Python's ==. */
bool tsr_value_equal(tsr_value a, tsr_value b);
/* -1, 0, 1; 2 if one is NaN. False if Python has no order for them. */
bool tsr_value_compare(tsr_value a, tsr_value b, int *out);
/* Number of items of a sequence, dict or text; false if it has none. */
bool tsr_value_length(tsr_value value, size_t *out);
/* Item of a sequence, key of a dict, character of a text; index < length. */
tsr_value tsr_value_item(tsr_arena *arena, tsr_value value, size_t index);
/* Python's repr and str. */
void tsr_value_repr(tsr_value value, tsr_buffer *out);
void tsr_value_str(tsr_value value, tsr_buffer *out);

bool tsr_value_hash(tsr_value value, uint64_t *out); /* false: it cannot be a key */
/* NULL if the key is missing. The hash is that of the key. */
tsr_value *tsr_dict_find(const tsr_dict *dict, tsr_value key, uint64_t hash);
bool tsr_dict_set(tsr_arena *arena, tsr_dict *dict, tsr_value key, uint64_t hash, tsr_value value);
bool tsr_dict_remove(tsr_dict *dict, tsr_value key, uint64_t hash);
/* The entry at an index, without removed ones. */
const tsr_dict_entry *tsr_dict_entry_at(const tsr_dict *dict, size_t index);

#endif
