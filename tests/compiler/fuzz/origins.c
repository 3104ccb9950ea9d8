/* SPDX-License-Identifier: Apache-2.0
 *
 * origins --seeds FOLDER... [--share N] [--part K] [--verbose yes]
 * origins --seeds FOLDER... --run I [--show yes]       case I, in this process
 *
 * Tests every op of our dialects with operands of every origin. The program walks over the modules
 * of the folders, and over the outputs of each stage for them, op by op. Each operand is replaced
 * by every other kind of value of its type that is available before the op, and by one from each
 * maker of origin.c; once there alone, once in all uses of the value. A module with one operand
 * replaced is a case. Cases that differ in neither level, op, operand, type nor origin are tried
 * once, in the smallest module, preferably one that the next stage accepts unchanged. If the
 * verifier accepts a case, it must be the same when it is printed and read, and the next stage must
 * accept it or refuse it with a numbered diagnostic.
 *
 * One in N cases is tried: part K of N, counted from 0; the N parts together are all cases. Without
 * --part, K is that of the day, so that runs of N days in a row try all; it is printed. In
 * addition, for each operand of each op at each level, cases are tried until the verifier accepts
 * one. The program fails if a case dies, hangs, differs or ends without a number, if some op occurs
 * in no module, or if no case of an op with operands was accepted and `except` has no entry for
 * that op.
 */
#include "compiler/ir/attributes.h"
#include "compiler/tile/tile.h"
#include "runtime/base/array.h"
#include "tests/compiler/corpus.h"
#include "tests/compiler/fuzz/origin.h"
#include "tests/compiler/fuzz/stages.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    OPS_MAX = 1024,
    OPERANDS_MAX = 8, /* further operands of a list are treated like the last one */
    MODULE_MAX_BYTES = 12000,
    CASE_SECONDS = 10,
    BATCH = 400,
    SHOWN_MAX = 60,
    SAID_MAX = 256,
};

typedef enum outcome {
    SKIPPED,
    REJECTED, /* rejected by the verifier */
    TAKEN,
    REFUSED, /* refused with a numbered diagnostic */
    DIFFERS,
    UNNUMBERED,
    INTERNAL,
    DIED,
    OUTCOMES
} outcome;
static const char *const outcome_names[OUTCOMES] = {
    "not tried",           "rejected by the verifier", "taken by the next stage", "refused",
    "different when read", "refused without a number", "internal errors",         "deaths"};

typedef struct source {
    char *bytes; /* owned */
    size_t size_bytes;
    bool passes; /* the next stage accepts it unchanged */
} source;

typedef struct origin_case {
    size_t module, op, operand; /* op: its index in a walk */
    size_t choice;   /* index into the values of origin_values_find, then into the makers */
    bool everywhere; /* all uses of the operand's value are replaced */
    size_t group;    /* the first case of this operand of the op at its level */
    const char *key; /* identifies the case; owned by the set of keys */
} origin_case;

/* The results for an op of ours. */
typedef struct row {
    const char *name;
    bool seen;
    size_t outcomes[OUTCOMES];
} row;

static row rows[OPS_MAX];
static size_t row_count;
static stages seeder = {.plain = true, .next = true};
static source *modules;
static size_t module_count, module_capacity;
static origin_case *cases;
static size_t case_count, case_capacity, share = 1, part = SIZE_MAX;
static bool verbose;
static MlirContext context;
static tsr_diag_list diags;

/* Shared with the children. */
static volatile size_t *board;  /* the current case */
static unsigned char *outcomes; /* one per case */
static bool *accepted;          /* per group: the verifier accepted a case */
static char (*said)[SAID_MAX];  /* message of each case */

/* ---- names ----------------------------------------------------------------------------------- */

static void read_op_names(void) {
    const char *names[OPS_MAX];
    row_count = corpus_op_names(context, names, OPS_MAX);
    TSR_ASSERT(row_count <= OPS_MAX);
    for (size_t i = 0; i < row_count; i++) rows[i].name = names[i];
}

/* NULL: of a dialect that is not ours. */
static row *row_of(const char *name) {
    for (size_t i = 0; i < row_count; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

/* Keys seen before, each with a number: open addressing. */
typedef struct key {
    char *text; /* owned */
    size_t number;
} key;
static key *keys;
static size_t key_count, key_capacity;

static size_t hash(const char *text) {
    uint64_t value = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *text; text++) value = (value ^ (unsigned char)*text) * 0x100000001b3u;
    return (size_t)(value ^ value >> 29);
}

static key *key_slot(key *table, size_t capacity, const char *text) {
    size_t at = hash(text) % capacity;
    while (table[at].text && strcmp(table[at].text, text) != 0) at = (at + 1) % capacity;
    return &table[at];
}

static void grow_keys(void) {
    size_t capacity = key_capacity ? 2 * key_capacity : 1 << 16;
    key *table = calloc(capacity, sizeof *table);
    TSR_ASSERT(table);
    for (size_t i = 0; i < key_capacity; i++)
        if (keys[i].text) *key_slot(table, capacity, keys[i].text) = keys[i];
    free(keys);
    keys = table;
    key_capacity = capacity;
}

/* Adds the key with this number, unless it exists already. */
static const key *add_key(const char *text, size_t number) {
    if (2 * (key_count + 1) > key_capacity) grow_keys();
    key *slot = key_slot(keys, key_capacity, text);
    if (slot->text) return slot;
    key_count++;
    *slot = (key){strdup(text), number};
    TSR_ASSERT(slot->text);
    return slot;
}

/* ---- modules --------------------------------------------------------------------------------- */

static MlirModule parse(const char *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    MlirModule module = {NULL};
    tsr_diag_finish(&diags);
    tsr_result result =
        tsr_mlir_parse(&ctx, context, &diags, bytes, size_bytes, "part.mlir", &module);
    return result.code ? (MlirModule){NULL} : module;
}

static void add_module(const char *bytes, size_t size_bytes) {
    if (size_bytes > MODULE_MAX_BYTES) return;
    if (module_count == module_capacity) {
        modules = tsr_grow(modules, &module_capacity, 256, sizeof *modules);
        TSR_ASSERT(modules);
    }
    source *added = &modules[module_count++];
    *added = (source){.bytes = strndup(bytes, size_bytes), .size_bytes = size_bytes};
    TSR_ASSERT(added->bytes);
    stages_run(&seeder, added->bytes, size_bytes);
    added->passes = !seeder.end.code && !seeder.diags.error_count;
}

static void set_target(MlirModule module, const char *target) {
    tsr_op_set(mlirModuleGetOperation(module), TSR_TARGET_NAME,
               tsr_attr_make_string(context, target));
}

static void add_printed(MlirModule module) {
    tsr_buffer out = {0};
    tsr_mlir_print(mlirModuleGetOperation(module), TSR_PRINT_PRETTY, &out);
    add_module(out.bytes, out.size_bytes);
    tsr_buffer_finish(&out);
}

static bool is_function(MlirOperation op) {
    return tsr_op_is(op, TSR_TILE_FUNC) || tsr_op_is(op, TSR_FUNC_FUNC);
}

/* A module of function `number` and everything that is not a function; null if the verifier rejects
 * it. */
static MlirModule isolate(MlirModule module, size_t number) {
    MlirOperation self = mlirOperationClone(mlirModuleGetOperation(module));
    MlirModule made = mlirModuleFromOperation(self);
    size_t at = 0;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(made)) {
        if (is_function(op) && at++ != number) mlirOperationDestroy(op);
    }
    if (mlirOperationVerify(self)) return made;
    mlirModuleDestroy(made);
    return (MlirModule){NULL};
}

/* Adds a kernel without a target once for each kind of target that supports it. */
static void add_kernel(MlirModule module) {
    static const char *const targets[] = {"cuda:sm_90a", "cuda:sm_80", "cpu:x86-64-v3"};
    bool warps = false;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_op_is(op, TSR_TILE_FUNC) && !tsr_op_has(op, "outputs"))
            tsr_op_set(op, "outputs", tsr_attr_make_i64(context, 1));
        warps = warps || tsr_op_has(op, "warps");
    }
    for (size_t i = 0; i < (warps ? 2 : 3); i++) {
        set_target(module, targets[i]);
        if (mlirOperationVerify(mlirModuleGetOperation(module))) add_printed(module);
    }
}

/* Adds the module unchanged; if the next stage refuses it, also with its functions as entries. */
static void add_program(stages *s, MlirModule module) {
    tsr_buffer entries = {0}, out = {0};
    tsr_mlir_print(mlirModuleGetOperation(module), TSR_PRINT_PRETTY, &out);
    if (out.size_bytes <= MODULE_MAX_BYTES) {
        add_module(out.bytes, out.size_bytes);
        if (!modules[module_count - 1].passes &&
            stages_entries(s, out.bytes, out.size_bytes, &entries) && entries.bytes)
            add_module(entries.bytes, entries.size_bytes);
    }
    tsr_buffer_finish(&entries);
    tsr_buffer_finish(&out);
}

/* Adds each function separately, so that a refused function does not hide others. */
static void add_functions(stages *s, MlirModule module) {
    size_t functions = 0;
    bool kernels = false, has_target = tsr_op_has(mlirModuleGetOperation(module), TSR_TARGET_NAME);
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        functions += is_function(op);
        kernels = kernels || tsr_op_is(op, TSR_TILE_FUNC);
    }
    if (!kernels || has_target) add_program(s, module);
    bool whole = functions == 1 || has_target;
    if (kernels && functions == 1 && !has_target) add_kernel(module);
    for (size_t i = 0; i < functions && !whole; i++) {
        MlirModule one = isolate(module, i);
        if (mlirModuleIsNull(one)) continue;
        if (kernels)
            add_kernel(one);
        else
            add_program(s, one);
        mlirModuleDestroy(one);
    }
}

static MlirWalkResult is_new(MlirOperation op, void *user) {
    row *found = row_of(tsr_op_name(op));
    bool *any = user;
    if (found && !found->seen) found->seen = *any = true;
    return MlirWalkResultAdvance;
}

/* Adds the outputs of the stages for a program, if it has an op that no earlier program had. */
static void add_dumps(stages *s, MlirModule module, const char *bytes, size_t size_bytes) {
    static const char *const targets[] = {"cpu:x86-64-v3", "cuda:sm_80", "cuda:sm_90a"};
    bool any = false;
    mlirOperationWalk(mlirModuleGetOperation(module), is_new, &any, MlirWalkPreOrder);
    for (size_t t = 0; any && t < TSR_COUNT(targets); t++) {
        tsr_buffer entries = {0}, dumps[STAGES_DUMPS] = {{0}};
        s->target = targets[t];
        if (!stages_dumps(s, bytes, size_bytes, dumps) &&
            stages_entries(s, bytes, size_bytes, &entries) && entries.bytes) {
            for (size_t i = 0; i < STAGES_DUMPS; i++) tsr_buffer_finish(&dumps[i]);
            memset(dumps, 0, sizeof dumps);
            stages_dumps(s, entries.bytes, entries.size_bytes, dumps);
        }
        for (size_t i = 0; i < STAGES_DUMPS; i++) {
            if (dumps[i].bytes && (i >= 2 || t == 0))
                add_module(dumps[i].bytes, dumps[i].size_bytes);
            tsr_buffer_finish(&dumps[i]);
        }
        tsr_buffer_finish(&entries);
    }
}

static void add_part(const char *path, const char *bytes, size_t size_bytes, void *user) {
    stages *s = user;
    (void)path;
    if (size_bytes > MODULE_MAX_BYTES) return;
    MlirModule module = parse(bytes, size_bytes);
    if (mlirModuleIsNull(module)) return;
    add_dumps(s, module, bytes, size_bytes);
    add_functions(s, module);
    mlirModuleDestroy(module);
}

/* Orders accepted modules first. */
static int by_size(const void *a, const void *b) {
    const source *x = a, *y = b;
    if (x->passes != y->passes) return x->passes ? -1 : 1;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? -1 : 1;
    return strcmp(x->bytes, y->bytes);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* "tile of cuda": the level and the kind of target. */
static void describe(MlirModule module, char out_text[static ORIGIN_TEXT_MAX]) {
    static const struct {
        tsr_op op;
        const char *name;
    } levels[] = {{TSR_TARGET_FUNC, "target"},
                  {TSR_TILE_FUNC, "tile"},
                  {TSR_SCHED_FUNC, "schedule"},
                  {TSR_TARGET_DOCUMENT, "lowered"}};
    const char *level = "graph",
               *target = tsr_op_string(mlirModuleGetOperation(module), TSR_TARGET_NAME);
    for (size_t i = TSR_COUNT(levels); i-- > 0;) TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
            if (tsr_op_is(op, levels[i].op)) level = levels[i].name;
        }
    snprintf(out_text, ORIGIN_TEXT_MAX, "%s%s%.*s", level, target ? " of " : "",
             target ? (int)strcspn(target, ":") : 0, target ? target : "");
}

typedef struct enumeration {
    size_t module, op;
    char level[ORIGIN_TEXT_MAX];
    origin_values values;
} enumeration;

/* Adds a case unless an equal one exists. Both kinds of keys map to the number of a case. */
static void add_case(const enumeration *e, size_t operand, size_t choice, bool everywhere,
                     const char *text, size_t group_length) {
    char group[ORIGIN_TEXT_MAX];
    const key *own = add_key(text, case_count);
    if (own->number != case_count) return;
    const char *name = own->text; /* the next key may move the table */
    snprintf(group, sizeof group, "%.*s", (int)group_length, text);
    if (case_count == case_capacity) {
        cases = tsr_grow(cases, &case_capacity, 4096, sizeof *cases);
        TSR_ASSERT(cases);
    }
    size_t first = add_key(group, case_count)->number;
    cases[case_count++] = (origin_case){e->module, e->op, operand, choice, everywhere, first, name};
}

static bool uses_more(MlirValue value) {
    return !mlirOpOperandIsNull(mlirOpOperandGetNextUse(mlirValueGetFirstUse(value)));
}

static bool is_another(MlirValue value, MlirValue was) {
    return !mlirValueEqual(value, was) &&
           mlirTypeEqual(mlirValueGetType(value), mlirValueGetType(was));
}

static void add_cases(enumeration *e, MlirOperation op, size_t operand) {
    char text[4 * ORIGIN_TEXT_MAX], kind[ORIGIN_TEXT_MAX], name[ORIGIN_TEXT_MAX];
    MlirValue was = tsr_op_operand(op, operand);
    origin_kind(mlirValueGetType(was), kind);
    bool more = uses_more(was);
    size_t there = e->values.count, all = there + origin_maker_count();
    int group = snprintf(text, sizeof text, "%s: %s, operand %zu", e->level, tsr_op_name(op),
                         operand < OPERANDS_MAX ? operand : OPERANDS_MAX);
    int used = group + snprintf(text + group, sizeof text - (size_t)group, ", a %s: ", kind);
    for (size_t i = 0; i < all; i++) {
        if (i < there && !is_another(e->values.items[i], was)) continue;
        if (i >= there && !origin_may_make(i - there, mlirValueGetType(was))) continue;
        snprintf(text + used, sizeof text - (size_t)used, "%s",
                 i < there ? origin_name(e->values.items[i], name) : origin_maker_name(i - there));
        add_case(e, operand, i, false, text, (size_t)group);
        if (!more) continue;
        size_t end = strlen(text);
        snprintf(text + end, sizeof text - end, ", everywhere");
        add_case(e, operand, i, true, text, (size_t)group);
    }
}

static MlirWalkResult enumerate_op(MlirOperation op, void *user) {
    enumeration *e = user;
    row *found = row_of(tsr_op_name(op));
    if (found) found->seen = true;
    size_t operands = tsr_op_operand_count(op);
    if (operands) origin_values_find(&e->values, op);
    for (size_t i = 0; i < operands; i++) add_cases(e, op, i);
    e->op++;
    return MlirWalkResultAdvance;
}

static void enumerate(void) {
    enumeration e = {0};
    for (size_t i = 0; i < row_count; i++) rows[i].seen = false;
    for (e.module = 0; e.module < module_count; e.module++) {
        MlirModule module = parse(modules[e.module].bytes, modules[e.module].size_bytes);
        if (mlirModuleIsNull(module)) continue;
        e.op = 0;
        describe(module, e.level);
        mlirOperationWalk(mlirModuleGetOperation(module), enumerate_op, &e, MlirWalkPreOrder);
        mlirModuleDestroy(module);
    }
    origin_values_finish(&e.values);
}

/* A case outside this part is tried only while no case of its group was accepted. */
static bool is_chosen(size_t number) {
    return hash(cases[number].key) % share == part || !accepted[cases[number].group];
}

/* ---- one case -------------------------------------------------------------------------------- */

typedef struct search {
    size_t left;
    MlirOperation found;
} search;

static MlirWalkResult find_op(MlirOperation op, void *user) {
    search *of = user;
    if (of->left--) return MlirWalkResultAdvance;
    of->found = op;
    return MlirWalkResultInterrupt;
}

/* Replaces all other uses, except those in the ops that make `by`. */
static void replace_others(MlirValue was, MlirValue by) {
    MlirOperation maker = tsr_value_owner(by);
    MlirOpOperand use = mlirValueGetFirstUse(was);
    while (!mlirOpOperandIsNull(use)) {
        MlirOperation user = mlirOpOperandGetOwner(use);
        intptr_t operand = mlirOpOperandGetOperandNumber(use);
        use = mlirOpOperandGetNextUse(use);
        bool inside = false;
        for (MlirOperation at = user; !mlirOperationIsNull(at) && !inside;
             at = mlirOperationGetParentOperation(at))
            inside = mlirOperationEqual(at, maker);
        if (!inside) mlirOperationSetOperand(user, operand, by);
    }
}

/* Returns null if the case cannot be made. */
static MlirModule make_case(const origin_case *c) {
    search of = {.left = c->op};
    origin_values values = {0};
    MlirModule module = parse(modules[c->module].bytes, modules[c->module].size_bytes);
    mlirOperationWalk(mlirModuleGetOperation(module), find_op, &of, MlirWalkPreOrder);
    origin_values_find(&values, of.found);
    MlirValue was = tsr_op_operand(of.found, c->operand);
    bool made = c->choice < values.count;
    if (made)
        mlirOperationSetOperand(of.found, (intptr_t)c->operand, values.items[c->choice]);
    else
        made = origin_make(c->choice - values.count, of.found, c->operand);
    origin_values_finish(&values);
    if (c->everywhere) replace_others(was, tsr_op_operand(of.found, c->operand));
    if (made && mlirOperationVerify(mlirModuleGetOperation(module))) return module;
    mlirModuleDestroy(module);
    return (MlirModule){NULL};
}

static bool is_same_when_read(const tsr_buffer *out) {
    tsr_buffer again = {0};
    MlirModule module = parse(out->bytes, out->size_bytes);
    if (mlirModuleIsNull(module)) return false;
    tsr_mlir_print(mlirModuleGetOperation(module), TSR_PRINT_PRETTY, &again);
    mlirModuleDestroy(module);
    bool same = strcmp(again.bytes, out->bytes) == 0;
    tsr_buffer_finish(&again);
    return same;
}

static outcome run_next(stages *s, const tsr_buffer *out, char *told) {
    stages_run(s, out->bytes, out->size_bytes);
    const tsr_diag *first = s->diags.first;
    snprintf(told, SAID_MAX, "%.200s", s->end.code ? s->end.text : first ? first->text : "");
    if (s->end.code == TSR_INTERNAL) return INTERNAL;
    if (s->diags.error_count) return REFUSED;
    return s->end.code ? UNNUMBERED : TAKEN;
}

static outcome run_case(stages *s, const origin_case *c, char *told, bool show) {
    tsr_buffer out = {0};
    MlirModule module = make_case(c);
    if (mlirModuleIsNull(module)) {
        snprintf(told, SAID_MAX, "%.200s", diags.first ? diags.first->text : "");
        return REJECTED;
    }
    tsr_mlir_print(mlirModuleGetOperation(module), TSR_PRINT_PRETTY, &out);
    mlirModuleDestroy(module);
    if (show) fputs(out.bytes, stdout);
    outcome result = is_same_when_read(&out) ? run_next(s, &out, told) : DIFFERS;
    tsr_buffer_finish(&out);
    return result;
}

/* ---- children -------------------------------------------------------------------------------- */

/* A death, including one by the limit of CPU time, is attributed to the current case. */
static _Noreturn void run_some(size_t end) {
    stages s = {.plain = true, .next = true};
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    int null = open("/dev/null", O_WRONLY);
    if (!verbose && null >= 0) dup2(null, STDERR_FILENO);
    for (size_t done = 0; *board < end && done < BATCH; ++*board) {
        size_t i = *board;
        struct rusage used;
        if (!is_chosen(i)) continue;
        getrusage(RUSAGE_SELF, &used);
        const struct rlimit limit = {(rlim_t)used.ru_utime.tv_sec + CASE_SECONDS, RLIM_INFINITY};
        setrlimit(RLIMIT_CPU, &limit);
        outcomes[i] = DIED;
        outcomes[i] = (unsigned char)run_case(&s, &cases[i], said[i], false);
        if (outcomes[i] != REJECTED) accepted[cases[i].group] = true;
        done++;
    }
    _exit(0);
}

static void run_all(void) {
    while (*board < case_count) {
        int status = 0;
        fflush(stdout);
        pid_t pid = fork();
        TSR_ASSERT(pid >= 0);
        if (pid == 0) run_some(case_count);
        while (waitpid(pid, &status, 0) < 0) TSR_ASSERT(errno == EINTR);
        if (WIFEXITED(status) && !WEXITSTATUS(status)) continue;
        snprintf(said[*board], SAID_MAX, "%s",
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exits");
        ++*board;
    }
}

/* ---- results --------------------------------------------------------------------------------- */

static void *share_memory(size_t size_bytes) {
    void *memory =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TSR_ASSERT(memory != MAP_FAILED);
    return memory;
}

static bool is_wrong(outcome o) { return o >= DIFFERS; }

static size_t report_cases(void) {
    size_t counts[OUTCOMES] = {0}, wrong = 0;
    for (size_t i = 0; i < case_count; i++) {
        outcome o = outcomes[i];
        char name[ORIGIN_TEXT_MAX];
        const char *begin = strstr(cases[i].key, ": ") + 2;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(begin, ","), begin);
        row *of = row_of(name);
        counts[o]++;
        if (of) of->outcomes[o]++;
        wrong += is_wrong(o);
        if ((is_wrong(o) && wrong <= SHOWN_MAX) || (verbose && o != SKIPPED))
            printf("case %zu: %s: %s: %s\n", i, cases[i].key, outcome_names[o], said[i]);
    }
    for (size_t o = 0; o < OUTCOMES; o++) printf("%8zu %s\n", counts[o], outcome_names[o]);
    return wrong;
}

/* Ops whose operands can have no other origin, with the reason. */
static const struct {
    const char *name, *why;
} except[] = {
    {"tsched.unpack", "reads the one argument of its group that is packed"},
    {"tsched.stage", "reads the stage before it; there is no other such token"},
};

static const char *find_reason(const char *name) {
    for (size_t i = 0; i < TSR_COUNT(except); i++)
        if (strcmp(except[i].name, name) == 0) return except[i].why;
    return NULL;
}

/* NULL: the op was covered. */
static const char *why_uncovered(const row *of) {
    size_t tried = 0;
    for (size_t o = REJECTED; o < OUTCOMES; o++) tried += of->outcomes[o];
    if (!of->seen) return "stands in no module";
    return tried && tried == of->outcomes[REJECTED] ? "no value of another origin is accepted"
                                                    : NULL;
}

static size_t report_ops(void) {
    size_t wrong = 0, covered = 0, lowered = 0;
    for (size_t i = 0; i < row_count; i++) {
        const char *why = why_uncovered(&rows[i]), *reason = find_reason(rows[i].name);
        covered += !why;
        lowered += rows[i].outcomes[TAKEN] > 0;
        wrong += !why != !reason;
        if (why)
            printf("%s: %s%s%s\n", rows[i].name, why, reason ? ": " : "", reason ? reason : "");
        if (!why && reason) printf("%s: is no exception any longer\n", rows[i].name);
        if (verbose && !why && rows[i].outcomes[REFUSED] && !rows[i].outcomes[TAKEN])
            printf("%s: the next stage refuses every case\n", rows[i].name);
    }
    printf("%zu of %zu ops, %zu of them with an operand of another origin through the next stage\n",
           covered, row_count, lowered);
    return wrong;
}

/* ---- the program ----------------------------------------------------------------------------- */

static int run_alone(size_t number, bool show) {
    char told[SAID_MAX] = "";
    stages s = {.plain = true, .next = true};
    outcome found = run_case(&s, &cases[number], told, show);
    printf("case %zu: %s: %s: %s\n", number, cases[number].key, outcome_names[found], told);
    stages_finish(&s);
    return is_wrong(found);
}

static int run_shares(void) {
    board = share_memory(sizeof *board);
    outcomes = share_memory(case_count + 1);
    accepted = share_memory((case_count + 1) * sizeof *accepted);
    said = share_memory((case_count + 1) * sizeof *said);
    run_all();
    size_t wrong = report_cases();
    return wrong + report_ops() != 0;
}

/* The part that is tried today, in UTC. */
static size_t part_of_day(void) {
    enum { DAY_SECONDS = 24 * 60 * 60 };
    return (size_t)(time(NULL) / DAY_SECONDS) % share;
}

/* False if `name` is not an option. */
static bool read_option(const char *name, const char *value, size_t *only, bool *show) {
    if (strcmp(name, "--share") == 0)
        share = strtoul(value, NULL, 10);
    else if (strcmp(name, "--part") == 0)
        part = strtoul(value, NULL, 10);
    else if (strcmp(name, "--verbose") == 0)
        verbose = strcmp(value, "yes") == 0;
    else if (strcmp(name, "--show") == 0)
        *show = strcmp(value, "yes") == 0;
    else if (strcmp(name, "--run") == 0)
        *only = strtoul(value, NULL, 10);
    else
        return false;
    return true;
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {0};
    size_t only = SIZE_MAX;
    bool show = false;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (tsr_mlir_context_create(&ctx, &diags, &context).code) return 1;
    read_op_names();
    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && read_option(argv[i], argv[i + 1], &only, &show))
            i++;
        else if (strcmp(argv[i], "--seeds") != 0 && !corpus_each(argv[i], add_part, &seeder))
            return 2;
    }
    stages_finish(&seeder);
    if (part == SIZE_MAX && share) part = part_of_day();
    if (!module_count || part >= share) return 2;
    qsort(modules, module_count, sizeof *modules, by_size);
    enumerate();
    printf("%zu modules, %zu cases; --share %zu --part %zu\n", module_count, case_count, share,
           part);
    return only < case_count ? run_alone(only, show) : run_shares();
}
