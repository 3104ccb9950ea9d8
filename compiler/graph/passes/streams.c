/* SPDX-License-Identifier: Apache-2.0
 *
 * The random numbers of an op depend on its call path: the entry, the calls on the path and the op
 * itself, each numbered among those of the same name in its function ("train/block#3/dropout#0").
 * Twelve calls of one block therefore use twelve masks, and a line added elsewhere changes none of
 * the masks.
 *
 * Pass tessera-name-calls records names and numbers in the locations of calls and random ops;
 * inlining keeps locations as chains of call sites; pass tessera-streams reads them and sets
 * `stream`, 32 bits of the path's hash. Two paths with the same hash are refused. If a function on
 * the path is deterministic, the op also gets its seed.
 */
#include "compiler/graph/effects/effects.h"
#include "compiler/graph/rule.h"
#include "compiler/ir/attributes.h"
#include "compiler/passes.h"
#include "runtime/base/array.h"
#include "runtime/base/hash/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_random(MlirOperation op) {
    switch (tsr_op_of(op)) {
    case TSR_GRAPH_DROPOUT:
    case TSR_GRAPH_RANDOM_UNIFORM:
    case TSR_GRAPH_RANDOM_NORMAL:
        return true;
    case TSR_GRAPH_ATTENTION:
        return tsr_op_has(op, "dropout");
    default:
        return false;
    }
}

/* Calls `visit` for each op of the block and of the regions in it. */
static void walk(MlirBlock block, void (*visit)(MlirOperation op, void *user), void *user) {
    TSR_FOR_EACH_OP(op, block) {
        visit(op, user);
        for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
            MlirBlock inner = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, i));
            if (!mlirBlockIsNull(inner)) walk(inner, visit, user);
        }
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char prefix[] = "tessera:"; /* prefix of the location names that this pass adds */
/* The same for calls of deterministic functions; the seed follows. */
static const char seed_prefix[] = "tessera.seed:";

typedef struct counter {
    const char *name;
    uint32_t count;
} counter;

typedef struct namer {
    tsr_arena arena;
    MlirSymbolTable symbols;
    counter *counters;
    size_t count, capacity;
    bool failed;
} namer;

static uint32_t next_of(namer *n, const char *name) {
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->counters[i].name, name) == 0) return n->counters[i].count++;
    if (n->count == n->capacity) {
        counter *larger = TSR_ARENA_GROW(&n->arena, n->counters, &n->capacity, 16);
        n->failed = n->failed || !larger;
        if (!larger) return 0;
        n->counters = larger;
    }
    n->counters[n->count++] = (counter){.name = name, .count = 1};
    return 0;
}

static int64_t seed_of(MlirOperation func) {
    uint32_t seed;
    if (mlirOperationIsNull(func) || !tsr_deterministic_read(func, &seed)) return -1;
    return seed;
}

/* Inlining drops the function, but keeps the location. */
static void note_seed(const namer *n, MlirOperation call) {
    char text[sizeof seed_prefix + 24];
    const char *callee = tsr_op_string(call, "callee");
    int64_t seed = callee ? seed_of(mlirSymbolTableLookup(n->symbols, tsr_ref(callee))) : -1;
    if (seed < 0) return;
    snprintf(text, sizeof text, "%s%" PRId64, seed_prefix, seed);
    mlirOperationSetLocation(call, mlirLocationNameGet(mlirOperationGetContext(call), tsr_ref(text),
                                                       mlirOperationGetLocation(call)));
}

/* The function's name in the program, with the prefix of the call: what pass
 * tessera-specialize-calls makes of the callee. */
static const char *name_of_call(namer *n, MlirOperation call) {
    const char *callee = tsr_op_string(call, "callee"),
               *name = tsr_op_string(call, TSR_CALLED_NAME);
    const char *own = callee && name ? strchr(callee, '[') : NULL;
    if (!own) return name ? name : callee;
    const char *text = tsr_arena_printf(&n->arena, "%s%s", name, own);
    n->failed = n->failed || !text;
    return text;
}

static void name_op(MlirOperation op, void *user) {
    namer *n = user;
    const char *name = NULL;
    if (tsr_op_is(op, TSR_FUNC_CALL)) name = name_of_call(n, op);
    if (is_random(op)) name = tsr_op_name(op) + strlen(TSR_GRAPH_NAME(""));
    if (!name) return;
    char *text = tsr_arena_printf(&n->arena, "%s%s#%u", prefix, name, next_of(n, name));
    n->failed = n->failed || !text;
    if (!text) return;
    MlirLocation location = mlirOperationGetLocation(op);
    mlirOperationSetLocation(
        op, mlirLocationNameGet(mlirOperationGetContext(op), tsr_ref(text), location));
    if (tsr_op_is(op, TSR_FUNC_CALL)) note_seed(n, op);
}

bool tsr_pass_name_calls(MlirModule module) {
    MlirSymbolTable symbols = mlirSymbolTableCreate(mlirModuleGetOperation(module));
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        namer n = {.symbols = symbols};
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        walk(tsr_op_body(func), name_op, &n);
        if (n.failed)
            tsr_diag_error(mlirOperationGetLocation(func), TSR_DIAG_MEMORY, "out of memory");
        done = done && !n.failed;
        tsr_arena_finish(&n.arena);
    }
    mlirSymbolTableDestroy(symbols);
    return done;
}

/* ---- streams --------------------------------------------------------------------------------- */

typedef struct stream {
    const char *path;
    MlirOperation op;
    uint32_t number;
} stream;

typedef struct streamer {
    tsr_arena arena;
    const char *entry;
    int64_t seed; /* of the entry; -1: it is not deterministic */
    stream *streams;
    size_t count, capacity;
    bool failed;
} streamer;

static void append_path(MlirLocation location, tsr_buffer *path, int depth) {
    if (depth == 0) return;
    if (mlirLocationIsACallSite(location)) {
        append_path(mlirLocationCallSiteGetCaller(location), path, depth - 1);
        append_path(mlirLocationCallSiteGetCallee(location), path, depth - 1);
    } else if (mlirLocationIsAName(location)) {
        MlirStringRef name = mlirIdentifierStr(mlirLocationNameGetName(location));
        size_t skip = sizeof prefix - 1;
        if (name.length > skip && memcmp(name.data, prefix, skip) == 0)
            tsr_buffer_printf(path, "/%.*s", (int)(name.length - skip), name.data + skip);
        else
            append_path(mlirLocationNameGetChildLoc(location), path, depth - 1);
    }
}

/* Appends the calls through which the op was inlined, without the name of the op itself. */
static void append_calls(MlirLocation location, tsr_buffer *path, int depth) {
    if (depth == 0 || !mlirLocationIsACallSite(location)) return;
    append_path(mlirLocationCallSiteGetCaller(location), path, depth - 1);
    append_calls(mlirLocationCallSiteGetCallee(location), path, depth - 1);
}

/* ---- seeds ----------------------------------------------------------------------------------- */

static uint32_t number_after(MlirStringRef name, size_t skip) {
    uint32_t number = 0;
    for (size_t i = skip; i < name.length; i++)
        number = 10 * number + (uint32_t)(name.data[i] - '0');
    return number;
}

static bool begins_with(MlirStringRef name, const char *word, size_t length) {
    return name.length > length && memcmp(name.data, word, length) == 0;
}

/* The seed of the last, innermost, deterministic function among the calls of the location. */
static void find_seed(MlirLocation location, int64_t *out_seed, int depth) {
    if (depth == 0) return;
    if (mlirLocationIsACallSite(location)) {
        find_seed(mlirLocationCallSiteGetCaller(location), out_seed, depth - 1);
        find_seed(mlirLocationCallSiteGetCallee(location), out_seed, depth - 1);
    } else if (mlirLocationIsAName(location)) {
        MlirStringRef name = mlirIdentifierStr(mlirLocationNameGetName(location));
        if (begins_with(name, seed_prefix, sizeof seed_prefix - 1))
            *out_seed = number_after(name, sizeof seed_prefix - 1);
        find_seed(mlirLocationNameGetChildLoc(location), out_seed, depth - 1);
    }
}

static void set_seed(MlirOperation op, void *user) {
    enum { DEPTH_MAX = 256 };
    const streamer *s = user;
    int64_t seed = s->seed;
    if (!is_random(op)) return;
    find_seed(mlirOperationGetLocation(op), &seed, DEPTH_MAX);
    if (seed >= 0)
        tsr_op_set(op, TSR_SEED_NAME, tsr_attr_make_i64(mlirOperationGetContext(op), seed));
}

/* Each call of a function that a plan materializes as one kernel has its own group. */
static void set_group(MlirOperation op, void *user) {
    enum { DEPTH_MAX = 256 };
    streamer *s = user;
    tsr_buffer path = {0};
    if (!tsr_op_has(op, TSR_PLANNED_GROUP)) return;
    tsr_buffer_printf(&path, "%s", s->entry);
    append_calls(mlirOperationGetLocation(op), &path, DEPTH_MAX);
    s->failed = s->failed || path.failed;
    if (!path.failed)
        tsr_op_set(op, TSR_PLANNED_GROUP,
                   tsr_attr_make_string(mlirOperationGetContext(op), path.bytes));
    tsr_buffer_finish(&path);
}

/* The 32 bits of a path's hash that identify the random stream of an op. */
static uint32_t stream_number(const char *path) {
    tsr_digest digest = tsr_hash(path, strlen(path));
    uint32_t number = 0;
    for (size_t i = 0; i < 4; i++) number = number << 8 | digest.bytes[i];
    return number;
}

static void set_stream(MlirOperation op, void *user) {
    enum { DEPTH_MAX = 256 };
    streamer *s = user;
    tsr_buffer path = {0};
    if (!is_random(op) || tsr_op_has(op, "stream")) return;
    tsr_buffer_printf(&path, "%s", s->entry);
    append_path(mlirOperationGetLocation(op), &path, DEPTH_MAX);
    if (s->count == s->capacity) {
        stream *larger = TSR_ARENA_GROW(&s->arena, s->streams, &s->capacity, 64);
        if (larger) s->streams = larger;
        s->failed = s->failed || !larger;
    }
    char *text = path.failed ? NULL : tsr_arena_strdup(&s->arena, path.bytes);
    s->failed = s->failed || !text;
    if (!s->failed) {
        uint32_t number = stream_number(text);
        s->streams[s->count++] = (stream){.path = text, .op = op, .number = number};
        tsr_op_set(op, "stream", tsr_attr_make_i64(mlirOperationGetContext(op), number));
    }
    tsr_buffer_finish(&path);
}

static int by_number(const void *a, const void *b) {
    const stream *x = a, *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return strcmp(x->path, y->path);
}

static bool check_streams(streamer *s) {
    if (s->count) qsort(s->streams, s->count, sizeof *s->streams, by_number);
    for (size_t i = 1; i < s->count; i++) {
        const stream *a = &s->streams[i - 1], *b = &s->streams[i];
        char text[512];
        if (a->number != b->number) continue;
        snprintf(text, sizeof text,
                 "%s: '%.180s' would draw the numbers of '%.180s'; "
                 "give one of them a `stream`",
                 tsr_op_name(b->op), b->path, a->path);
        tsr_diag_error_note(mlirOperationGetLocation(b->op), TSR_DIAG_STREAM_TAKEN, text,
                            mlirOperationGetLocation(a->op), "the other one is here");
        return false;
    }
    return true;
}

bool tsr_pass_streams(MlirModule module) {
    streamer s = {.count = 0};
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        s.entry = tsr_op_symbol(func);
        walk(tsr_op_body(func), set_stream, &s);
        s.seed = seed_of(func);
        walk(tsr_op_body(func), set_seed, &s);
        walk(tsr_op_body(func), set_group, &s);
    }
    if (s.failed)
        tsr_diag_error(mlirOperationGetLocation(mlirModuleGetOperation(module)), TSR_DIAG_MEMORY,
                       "out of memory");
    bool done = !s.failed && check_streams(&s);
    tsr_arena_finish(&s.arena);
    return done;
}
