/* SPDX-License-Identifier: Apache-2.0
 *
 * KVCache[B, H, S, D, dtype]: the keys and values of attention. A cache is a value: append makes
 * another one. In this version it lives in one call, and gets its tokens at once.
 */
#include "compiler/frontend/language/trace/tracer.h"
#include "compiler/ir/attributes.h"
#include "runtime/base/array.h"

#include <string.h>

enum { CACHE_RANK = 4, LENGTH_AXIS = 2 };

/* NULL: the bare KVCache. */
static const tsr_cache *cache_of(tsr_value v) { return v.object->data; }

static tsr_value make_cache(tsr_evaluator *e, const tsr_cache *type, tsr_value k, tsr_value v) {
    tsr_cache *own = tsr_arena_memdup(e->arena, type, sizeof *type);
    if (!own) return tsr_evaluate_no_memory(e);
    own->k = k;
    own->v = v;
    return tsr_evaluate_object(e, &tsr_cache_class, own);
}

tsr_value tsr_cache_replace(tsr_evaluator *e, tsr_value self, const MlirValue *values, size_t *at) {
    const tsr_cache *c = cache_of(self);
    if (!c || !c->k.kind) return self;
    tsr_value k = tsr_tensor_make(e, values[(*at)++]), v = tsr_tensor_make(e, values[(*at)++]);
    return make_cache(e, c, k, v);
}

static bool same_dims(const tsr_cache *a, const tsr_cache *b) {
    return memcmp(a->type.shape.dims, b->type.shape.dims, CACHE_RANK * sizeof(uint64_t)) == 0 &&
           a->type.dtype == b->type.dtype && a->rolling == b->rolling;
}

bool tsr_cache_same(const tsr_object *a, const tsr_object *b) {
    const tsr_cache *x = a->data, *y = b->data;
    if (x == y) return true;
    if (!x || !y || !same_dims(x, y) || x->k.kind != y->k.kind) return false;
    return !x->k.kind || (mlirTypeEqual(tsr_tensor_get(x->k)->ir, tsr_tensor_get(y->k)->ir) &&
                          mlirTypeEqual(tsr_tensor_get(x->v)->ir, tsr_tensor_get(y->v)->ir));
}

bool tsr_cache_check(tsr_evaluator *e, tsr_value annotation, tsr_value v, const char *name,
                     tsr_span span) {
    if (!tsr_value_is(annotation, &tsr_cache_class)) return true;
    const tsr_cache *must = cache_of(annotation);
    if (!tsr_value_is(v, &tsr_cache_class) || !cache_of(v)) {
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE,
                          "'%s' is a cache, as KVCache[B, H, S, D, bf16].empty(); it gets %s", name,
                          tsr_value_type_name(v));
        return false;
    }
    if (!must || same_dims(must, cache_of(v))) return true;
    char is[TSR_TYPE_TEXT_MAX], expected[TSR_TYPE_TEXT_MAX];
    tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_DIMS, "'%s' is a cache of %s; its type has %s", name,
                      tsr_type_text(&cache_of(v)->type, is), tsr_type_text(&must->type, expected));
    return false;
}

/* ---- append ---- */

static bool fits(tsr_evaluator *e, const tsr_call *call, const tsr_cache *c, const tsr_type *type,
                 const char *what) {
    char is[TSR_TYPE_TEXT_MAX], must[TSR_TYPE_TEXT_MAX];
    bool same = type->dtype == c->type.dtype && type->shape.rank == CACHE_RANK;
    for (uint32_t i = 0; same && i < CACHE_RANK; i++)
        same = type->shape.dims[i] == c->type.shape.dims[i] ||
               (i == LENGTH_AXIS && tsr_dim_is_known(type->shape.dims[i]) &&
                type->shape.dims[i] < c->type.shape.dims[i]);
    if (!same)
        tsr_evaluate_fail(e, call->span, TSR_DIAG_TRACE_DIMS,
                          "%s is %s; the cache takes at most %s: batch, heads, tokens, width", what,
                          tsr_type_text(type, is), tsr_type_text(&c->type, must));
    return same;
}

static tsr_value run_append(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_cache *c = cache_of(self);
    const tsr_argument *args[2];
    MlirValue k, v;
    if (!tsr_call_read(e, call, "k v", args, 2) || !tsr_call_need(e, call, args[0], "k") ||
        !tsr_call_need(e, call, args[1], "v") || !tsr_argument_tensor(e, args[0], &k) ||
        !tsr_argument_tensor(e, args[1], &v))
        return TSR_POISON;
    if (c->k.kind)
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_TRACE_LATER,
                                 "the cache has tokens already; this version appends to an empty "
                                 "cache only: concat joins tensors");
    const tsr_type *k_type = &tsr_tensor_get(args[0]->value)->type,
                   *v_type = &tsr_tensor_get(args[1]->value)->type;
    if (!fits(e, call, c, k_type, "k") || !fits(e, call, c, v_type, "v")) return TSR_POISON;
    if (k_type->shape.dims[LENGTH_AXIS] != v_type->shape.dims[LENGTH_AXIS]) {
        char is[TSR_TYPE_TEXT_MAX], must[TSR_TYPE_TEXT_MAX];
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_TRACE_DIMS,
                                 "k is %s and v is %s; both have the same number of tokens",
                                 tsr_type_text(k_type, is), tsr_type_text(v_type, must));
    }
    return make_cache(e, c, args[0]->value, args[1]->value);
}

static tsr_value run_empty(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[1];
    if (!tsr_call_read(e, call, "", args, 0)) return TSR_POISON;
    return make_cache(e, cache_of(self), TSR_POISON, TSR_POISON);
}

/* The cache that has the tokens k and v, and room for no more. */
static tsr_value run_of(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[2];
    MlirValue k;
    tsr_cache type = {0};
    (void)self;
    if (!tsr_call_read(e, call, "k v", args, 2) || !tsr_call_need(e, call, args[0], "k") ||
        !tsr_argument_tensor(e, args[0], &k))
        return TSR_POISON;
    type.type = tsr_tensor_get(args[0]->value)->type;
    tsr_value empty = make_cache(e, &type, TSR_POISON, TSR_POISON);
    return empty.kind ? run_append(e, empty, call) : TSR_POISON;
}

static tsr_value run_later(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return tsr_evaluate_fail(e, call->span, TSR_DIAG_TRACE_LATER,
                             "this version of Tessera has no '%s' of a cache", call->callee);
}

/* ---- the class ---- */

static const struct method {
    const char *name;
    bool typed; /* of a type or value, not of the bare KVCache */
    tsr_builtin_run *run;
} methods[] = {
    {"append", true, run_append}, {"empty", true, run_empty},   {"of", false, run_of},
    {"fork", true, run_later},    {"offload", true, run_later}, {"prefetch", true, run_later},
    {"prune", true, run_later},
};

static tsr_value bind_method(tsr_evaluator *e, const struct method *m, tsr_value self) {
    tsr_builtin *own = TSR_NEW(e->arena, tsr_builtin, 1);
    if (!own) return tsr_evaluate_no_memory(e);
    *own = (tsr_builtin){.name = m->name, .run = m->run, .self = self};
    return (tsr_value){.kind = TSR_VALUE_BUILTIN, .builtin = own};
}

static tsr_value attribute(tsr_evaluator *e, tsr_value self, const char *name, tsr_span span) {
    const tsr_cache *c = cache_of(self);
    bool is_k = strcmp(name, "K") == 0;
    if (is_k || strcmp(name, "V") == 0) {
        if (c && c->k.kind) return is_k ? c->k : c->v;
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE,
                                 "the cache is empty; append gives it tokens");
    }
    for (size_t i = 0; i < TSR_COUNT(methods); i++)
        if (strcmp(methods[i].name, name) == 0 && (c || !methods[i].typed))
            return bind_method(e, &methods[i], self);
    return TSR_POISON;
}

static tsr_value select_dims(tsr_evaluator *e, tsr_value self, tsr_value index, tsr_span span) {
    bool tuple = index.kind == TSR_VALUE_TUPLE;
    tsr_cache type = {0};
    if (cache_of(self))
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "the type has its dims already");
    if (!tuple || index.list->count != CACHE_RANK + 1 ||
        !tsr_value_is(index.list->items[CACHE_RANK], &tsr_dtype_class))
        return tsr_evaluate_fail(
            e, span, TSR_DIAG_TRACE_DIMS,
            "KVCache[…] holds batch, heads, tokens, width and an element type, "
            "as KVCache[4, 16, 512, 64, bf16]");
    type.type.dtype = tsr_dtype_get(index.list->items[CACHE_RANK]);
    if (!tsr_annotation_dims(e, index.list->items, CACHE_RANK, span, &type.type.shape))
        return TSR_POISON;
    return make_cache(e, &type, TSR_POISON, TSR_POISON);
}

/* @rolling_window and @device(gpu). */
static tsr_value apply_policy(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_value b,
                              tsr_span span) {
    const tsr_policy *policy = op == TSR_OPERATOR_MATRIX ? tsr_policy_get(b) : NULL;
    if (op == TSR_OPERATOR_EQUAL || op == TSR_OPERATOR_NOT_EQUAL)
        return tsr_value_bool((a.kind == b.kind && a.object == b.object) ==
                              (op == TSR_OPERATOR_EQUAL));
    if (!policy || !tsr_value_is(a, &tsr_cache_class) || !(policy->of & TSR_POLICY_OF_CACHES))
        return tsr_policy_refuse(e, op, a, b, span);
    if (!cache_of(a))
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE,
                                 "@%s stands after the dims, as KVCache[…] @%s", policy->name,
                                 policy->name);
    tsr_cache type = *cache_of(a);
    type.rolling = type.rolling || strcmp(policy->name, "rolling_window") == 0;
    return make_cache(e, &type, type.k, type.v);
}

static const char *const attributes[] = {"append", "empty", "of", "K", "V", NULL};

const tsr_class tsr_cache_class = {.name = "a cache",
                                   .binary = apply_policy,
                                   .attribute = attribute,
                                   .attributes = attributes,
                                   .subscript = select_dims};

tsr_value tsr_name_KVCache(tsr_evaluator *e) {
    return tsr_evaluate_object(e, &tsr_cache_class, NULL);
}
