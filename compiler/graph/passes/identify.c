/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-identify: records on the module the digest of its ops, and its hyper-parameters: the
 * numbers of its optimizers, and those of tessera.hyperparameter, of which the digest is
 * independent. A run can set them: the optimizers of train entries get TSR_SETTABLE_NAME. Runs when
 * all calls are inlined and before gradients are taken, so that the digest covers what the source
 * says. What it covers is normative: manifests/README.md, "Program digest".
 *
 * Outline: list the hyper-parameters · hash the ops, function by function in the order of their
 * names. Values are numbered in the order of the ops. That order counts, because gradients of a
 * value that is read several times are added in it. Constants, step and seed are not part of the
 * order: each use is hashed as if they stood there.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/resilience_ops.h"
#include "compiler/ir/value_map.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"
#include "runtime/base/hash/hash.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char tag[] = "tessera.operations.1"; /* hashed with its NUL */

typedef struct identifier {
    tsr_hasher hasher;
    tsr_arena arena;
    tsr_buffer text; /* owned; of one attribute or type */
    tsr_value_map values;
    uint32_t value_count;
    MlirOperation *funcs; /* by name; in the arena */
    size_t func_count;
    tsr_hyperparameter list[TSR_HYPERPARAMETERS_MAX];
    tsr_identity identity; /* of `list` */
    bool too_many;         /* hyper-parameters: they are hashed instead of listed */
    bool failed;           /* an error was emitted */
} identifier;

/* ---- hyper-parameters ------------------------------------------------------------------------ */

static const char *const adamw[] = {"lr", "beta1", "beta2", "eps", "weight_decay"};
static const char *const sgd[] = {"lr", "momentum", "weight_decay"};
enum {
    ADAMW_COUNT = TSR_COUNT(adamw),
    SGD_COUNT = TSR_COUNT(sgd),
};

static bool is_optimizer(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    return id == TSR_GRAPH_MINIMIZE || id == TSR_GRAPH_ADAMW || id == TSR_GRAPH_SGD;
}

/* Attributes that hold numbers: of an optimizer's op, and of hyperparameter. */
static bool is_hyperparameter(MlirStringRef name) {
    return tsr_ref_is(name, "optimizer") || tsr_ref_is(name, "clip_norm") ||
           tsr_ref_is(name, "lr_schedule");
}

static bool is_number(MlirStringRef name) {
    return tsr_ref_is(name, "value") || tsr_ref_is(name, "least") || tsr_ref_is(name, "most");
}

static void add(identifier *self, const char *prefix, const char *name, const char *value) {
    size_t count = self->identity.hyperparameter_count;
    self->too_many |= count == TSR_HYPERPARAMETERS_MAX;
    if (self->too_many) return;
    const char *full = tsr_arena_printf(&self->arena, "%s%s", prefix, name);
    const char *copy = tsr_arena_strdup(&self->arena, value);
    TSR_NEED(full && copy);
    self->list[count] = (tsr_hyperparameter){full, copy, false};
    self->identity.hyperparameter_count++;
}

static void add_double(identifier *self, const char *prefix, const char *name, double value) {
    char text[TSR_HYPERPARAMETER_VALUE_MAX];
    add(self, prefix, name, tsr_hyperparameter_format(value, text));
}

static void add_schedule(identifier *self, const char *prefix, MlirAttribute schedule) {
    if (mlirAttributeIsNull(schedule)) return;
    for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(schedule); i++) {
        MlirNamedAttribute member = mlirDictionaryAttrGetElement(schedule, i);
        const char *word = tsr_attr_string(member.attribute);
        char name[64], number[24];
        int64_t integer = 0;
        snprintf(name, sizeof name, "lr_schedule.%s", mlirIdentifierStr(member.name).data);
        snprintf(number, sizeof number, "%" PRId64,
                 tsr_attr_i64(member.attribute, &integer) ? integer : 0);
        if (word)
            add(self, prefix, name, word);
        else if (mlirAttributeIsAFloat(member.attribute))
            add_double(self, prefix, name, mlirFloatAttrGetValueDouble(member.attribute));
        else
            add(self, prefix, name, number);
    }
}

static void add_optimizer(identifier *self, MlirOperation op, const char *prefix) {
    const char *mnemonic = NULL;
    double values[TSR_SHIM_PARAMETERS_MAX] = {0};
    size_t count = tsr_shim_graph_attr(tsr_op_attr(op, "optimizer"), &mnemonic, values);
    const char *const *names = count == ADAMW_COUNT ? adamw : sgd;
    MlirAttribute clip_norm = tsr_op_attr(op, "clip_norm");
    TSR_ASSERT(count == ADAMW_COUNT || count == SGD_COUNT);
    for (size_t i = 0; i < count; i++) add_double(self, prefix, names[i], values[i]);
    if (!mlirAttributeIsNull(clip_norm))
        add_double(self, prefix, "clip_norm", mlirFloatAttrGetValueDouble(clip_norm));
    add_schedule(self, prefix, tsr_op_attr(op, "lr_schedule"));
}

static MlirWalkResult count_optimizer(MlirOperation op, void *user) {
    *(size_t *)user += is_optimizer(op);
    return MlirWalkResultAdvance;
}

typedef struct lister {
    identifier *self;
    const char *func;
    bool trains; /* the function */
    size_t in_func, in_module, number;
    size_t of_optimizers; /* number of listed names that optimizers have */
} lister;

/* A program with one optimizer has "lr"; with several, "train.lr", or "train.2.lr" where the
 * function has several. */
static const char *next_prefix(lister *l) {
    const char *prefix = "";
    l->number++;
    if (l->in_func > 1)
        prefix = tsr_arena_printf(&l->self->arena, "%s.%zu.", l->func, l->number);
    else if (l->in_module > 1)
        prefix = tsr_arena_printf(&l->self->arena, "%s.", l->func);
    TSR_NEED(prefix);
    return prefix;
}

static MlirWalkResult list_optimizer(MlirOperation op, void *user) {
    lister *l = user;
    if (is_optimizer(op)) add_optimizer(l->self, op, next_prefix(l));
    return MlirWalkResultAdvance;
}

/* A number of a loop's body is not a number of the step, and stays a constant. */
static MlirWalkResult mark_optimizer(MlirOperation op, void *user) {
    lister *l = user;
    if (!is_optimizer(op)) return MlirWalkResultAdvance;
    const char *prefix = next_prefix(l);
    if (tsr_op_is(mlirOperationGetParentOperation(op), TSR_FUNC_FUNC))
        tsr_op_set(op, TSR_SETTABLE_NAME,
                   tsr_attr_make_string(mlirOperationGetContext(op), prefix));
    return MlirWalkResultAdvance;
}

static const tsr_hyperparameter *find_listed(const identifier *self, const char *name) {
    for (size_t i = 0; i < self->identity.hyperparameter_count; i++)
        if (strcmp(self->list[i].name, name) == 0) return &self->list[i];
    return NULL;
}

static bool trains(MlirOperation func) {
    tsr_entry_kind kind;
    return tsr_graph_entry_kind(func, &kind) && kind == TSR_ENTRY_TRAIN;
}

/* Returns false after an error: the op is not in a train entry's own block, an optimizer has the
 * key, or the key is listed with another value. */
static bool check_number(const lister *l, MlirOperation op, const char *key, const char *value) {
    const tsr_hyperparameter *listed = find_listed(l->self, key);
    bool inside = !tsr_op_is(mlirOperationGetParentOperation(op), TSR_FUNC_FUNC);
    if (!l->trains || inside)
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_HYPERPARAMETER,
                       "tessera.hyperparameter: '%.200s' is in %s @%.200s; expected it in a train "
                       "entry, outside of loops, branches and derivatives",
                       key, l->trains ? "a region of" : "the entry", l->func);
    else if (listed && (size_t)(listed - l->self->list) < l->of_optimizers)
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_HYPERPARAMETER,
                       "tessera.hyperparameter: '%.200s' is the name of a number of an optimizer",
                       key);
    else if (listed && strcmp(listed->value, value) != 0)
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_HYPERPARAMETER,
                       "tessera.hyperparameter: '%.200s' is %s here, and %s elsewhere", key, value,
                       listed->value);
    else
        return true;
    return false;
}

static MlirWalkResult list_number(MlirOperation op, void *user) {
    lister *l = user;
    char text[TSR_HYPERPARAMETER_VALUE_MAX];
    double value = 0;
    if (!tsr_op_is(op, TSR_GRAPH_HYPERPARAMETER)) return MlirWalkResultAdvance;
    const char *key = tsr_op_string(op, "key");
    tsr_op_f64(op, "value", &value);
    bool good = check_number(l, op, key, tsr_hyperparameter_format(value, text));
    l->self->failed |= !good;
    if (good && !find_listed(l->self, key)) add(l->self, "", key, text);
    return MlirWalkResultAdvance;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const tsr_hyperparameter *)a)->name, ((const tsr_hyperparameter *)b)->name);
}

static void walk(lister *l, MlirOperation func, MlirOperationWalkCallback visit) {
    l->in_func = l->number = 0;
    l->func = tsr_op_symbol(func);
    l->trains = trains(func);
    mlirOperationWalk(func, count_optimizer, &l->in_func, MlirWalkPreOrder);
    mlirOperationWalk(func, visit, l, MlirWalkPreOrder);
}

static void list_hyperparameters(identifier *self) {
    static const tsr_digest any = {{1}}; /* the check needs some program digest */
    lister l = {.self = self};
    for (size_t i = 0; i < self->func_count; i++)
        mlirOperationWalk(self->funcs[i], count_optimizer, &l.in_module, MlirWalkPreOrder);
    for (size_t i = 0; i < self->func_count; i++) walk(&l, self->funcs[i], list_optimizer);
    l.of_optimizers = self->identity.hyperparameter_count;
    for (size_t i = 0; i < self->func_count; i++) walk(&l, self->funcs[i], list_number);
    qsort(self->list, self->identity.hyperparameter_count, sizeof *self->list, by_name);
    self->identity.hyperparameters = self->list;
    self->identity.program = any;
    self->too_many = self->too_many || tsr_identity_check(&self->identity);
    if (self->too_many) self->identity.hyperparameter_count = 0;
}

static void mark_optimizers(identifier *self) {
    lister l = {.self = self};
    for (size_t i = 0; i < self->func_count; i++)
        mlirOperationWalk(self->funcs[i], count_optimizer, &l.in_module, MlirWalkPreOrder);
    for (size_t i = 0; i < self->func_count; i++)
        if (trains(self->funcs[i])) walk(&l, self->funcs[i], mark_optimizer);
}

/* ---- hashing --------------------------------------------------------------------------------- */

/* Attributes that change no bit: how ops are grouped, which values are computed twice, where
 * optimizer steps run, and what functions promise (the seed of a deterministic function is also on
 * its random ops). */
static const char *const ignored_prefixes[] = {"tsched.", "tile."};
static const char *const ignored[] = {TSR_SR_SEGMENT,     TSR_SR_SEGMENTS,       TSR_SR_BUDGETS,
                                      TSR_SR_HINT,        TSR_SR_BACKWARD,       TSR_SR_RECOMPUTE,
                                      TSR_SR_HINT_BUDGET, TSR_SR_DEPLOYMENT,     TSR_SR_SHARDS,
                                      TSR_EFFECTS_NAME,   TSR_DETERMINISTIC_NAME};
/* Attributes of the module: its name, what the config or the target says, and what this pass adds.
 */
static const char *const ignored_of_module[] = {
    "sym_name",     TSR_NUMERICS_NAME,    TSR_WORKSPACE_MAX_NAME, "tessera.target",
    "tessera.mesh", TSR_SR_VIRTUAL_RANKS, TSR_OPERATIONS_NAME,    TSR_HYPERPARAMETERS_NAME,
};

static bool is_among(MlirStringRef name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (tsr_ref_is(name, names[i])) return true;
    return false;
}

static bool is_ignored(MlirStringRef name) {
    for (size_t i = 0; i < TSR_COUNT(ignored_prefixes); i++) {
        size_t length = strlen(ignored_prefixes[i]);
        if (name.length >= length && memcmp(name.data, ignored_prefixes[i], length) == 0)
            return true;
    }
    return is_among(name, ignored, TSR_COUNT(ignored));
}

static void put_number(identifier *self, uint64_t value) {
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(value >> (8 * i));
    tsr_hasher_update(&self->hasher, bytes, sizeof bytes);
}

static void put_text(identifier *self, const char *text, size_t length) {
    put_number(self, length);
    tsr_hasher_update(&self->hasher, text, length);
}

static void put_tag(identifier *self, char letter) { tsr_hasher_update(&self->hasher, &letter, 1); }

static void append(MlirStringRef text, void *user) {
    tsr_buffer_append(user, text.data, text.length);
}

/* What is left when every kind that programs use has a form of its own. */
static void put_printed(identifier *self) {
    TSR_NEED(!self->text.failed && self->text.bytes);
    put_tag(self, 'p');
    put_text(self, self->text.bytes, self->text.size_bytes);
    self->text.size_bytes = 0;
}

static void put_type(identifier *self, MlirType type) {
    tsr_type read;
    if (!tsr_type_read(type, &read)) {
        mlirTypePrint(type, append, &self->text);
        put_printed(self);
        return;
    }
    put_tag(self, 't');
    put_number(self, read.dtype);
    put_number(self, read.shape.rank);
    for (uint32_t i = 0; i < read.shape.rank; i++) put_number(self, read.shape.dims[i]);
}

static void put_function_type(identifier *self, MlirType type) {
    intptr_t inputs = mlirFunctionTypeGetNumInputs(type);
    intptr_t results = mlirFunctionTypeGetNumResults(type);
    put_tag(self, 'F');
    put_number(self, (uint64_t)inputs);
    for (intptr_t i = 0; i < inputs; i++) put_type(self, mlirFunctionTypeGetInput(type, i));
    put_number(self, (uint64_t)results);
    for (intptr_t i = 0; i < results; i++) put_type(self, mlirFunctionTypeGetResult(type, i));
}

static void put_value(identifier *self, MlirAttribute attr);

/* A constant: its one element, or the digest of its elements as they are stored. */
static bool put_elements(identifier *self, MlirAttribute attr) {
    MlirAttribute element = tsr_attr_splat_element(attr);
    tsr_arena scratch = {0};
    tsr_type type;
    void *data = NULL;
    uint64_t size = 0;
    if (!mlirAttributeIsNull(element)) {
        put_tag(self, 'c');
        put_type(self, mlirAttributeGetType(attr));
        put_value(self, element);
        return true;
    }
    bool read = tsr_attr_elements(attr, &scratch, &type, &data) &&
                tsr_shape_size(&type.shape, type.dtype, &size);
    if (read) {
        tsr_digest digest = tsr_hash(data, (size_t)size);
        put_tag(self, 'e');
        put_type(self, mlirAttributeGetType(attr));
        tsr_hasher_update(&self->hasher, digest.bytes, sizeof digest.bytes);
    }
    tsr_arena_finish(&scratch);
    return read;
}

static void put_double(identifier *self, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_tag(self, 'f');
    put_number(self, bits);
}

static void put_list(identifier *self, MlirAttribute attr) {
    intptr_t count = mlirArrayAttrGetNumElements(attr);
    put_tag(self, 'a');
    put_number(self, (uint64_t)count);
    for (intptr_t i = 0; i < count; i++) put_value(self, mlirArrayAttrGetElement(attr, i));
}

static void put_named(identifier *self, MlirNamedAttribute named) {
    MlirStringRef name = mlirIdentifierStr(named.name);
    put_text(self, name.data, name.length);
    put_value(self, named.attribute);
}

static void put_dictionary(identifier *self, MlirAttribute attr) {
    intptr_t count = mlirDictionaryAttrGetNumElements(attr);
    put_tag(self, 'd');
    put_number(self, (uint64_t)count);
    for (intptr_t i = 0; i < count; i++) put_named(self, mlirDictionaryAttrGetElement(attr, i));
}

static bool is_function_type(MlirAttribute attr) {
    return mlirAttributeIsAType(attr) && mlirTypeIsAFunction(mlirTypeAttrGetValue(attr));
}

/* The type of a number or of a list of numbers is given by the op's declaration, and not hashed. */
static void put_value(identifier *self, MlirAttribute attr) {
    int64_t integer = 0;
    if (mlirAttributeIsAFloat(attr)) {
        put_double(self, mlirFloatAttrGetValueDouble(attr));
    } else if (tsr_attr_i64(attr, &integer)) {
        put_tag(self, 'i');
        put_number(self, (uint64_t)integer);
    } else if (mlirAttributeIsAString(attr)) {
        MlirStringRef text = mlirStringAttrGetValue(attr);
        put_tag(self, 's');
        put_text(self, text.data, text.length);
    } else if (mlirAttributeIsAUnit(attr)) {
        put_tag(self, 'u');
    } else if (mlirAttributeIsAArray(attr)) {
        put_list(self, attr);
    } else if (mlirAttributeIsADictionary(attr)) {
        put_dictionary(self, attr);
    } else if (is_function_type(attr)) {
        put_function_type(self, mlirTypeAttrGetValue(attr));
    } else if (!put_elements(self, attr)) {
        mlirAttributePrint(attr, append, &self->text);
        put_printed(self);
    }
}

/* The optimizer alone, without its numbers. */
static void put_kind(identifier *self, MlirNamedAttribute named) {
    MlirStringRef name = mlirIdentifierStr(named.name);
    const char *mnemonic = NULL;
    double values[TSR_SHIM_PARAMETERS_MAX];
    tsr_shim_graph_attr(named.attribute, &mnemonic, values);
    put_text(self, name.data, name.length);
    put_tag(self, 's');
    put_text(self, mnemonic, strlen(mnemonic));
}

/* MLIR sorts attributes by name. */
static void put_attributes(identifier *self, MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    bool omits = is_optimizer(op) && !self->too_many;
    bool declares = id == TSR_GRAPH_PARAM || id == TSR_GRAPH_OPT_STATE;
    for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
        MlirNamedAttribute named = mlirOperationGetAttribute(op, i);
        MlirStringRef name = mlirIdentifierStr(named.name);
        bool is_kind = tsr_ref_is(name, "optimizer");
        if (is_ignored(name) || (omits && is_hyperparameter(name) && !is_kind)) continue;
        if (id == TSR_GRAPH_HYPERPARAMETER && !self->too_many && is_number(name)) continue;
        /* Initial values are those of the config's tensors. */
        if (declares && (tsr_ref_is(name, "init") || tsr_ref_is(name, "data"))) continue;
        if (omits && is_kind)
            put_kind(self, named);
        else
            put_named(self, named);
    }
    put_text(self, "", 0);
}

static void name_value(identifier *self, MlirValue value) {
    put_type(self, mlirValueGetType(value));
    TSR_NEED(tsr_value_map_set(&self->values, &self->arena, value, self->value_count));
    self->value_count++;
}

/* An op whose position in the order has no meaning. */
static bool is_placeless(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    return id == TSR_GRAPH_CONSTANT || id == TSR_GRAPH_STEP || id == TSR_GRAPH_SEED;
}

static void put_operand(identifier *self, MlirValue value) {
    MlirOperation owner = tsr_value_owner(value);
    if (mlirOperationIsNull(owner) || !is_placeless(owner)) {
        put_number(self, tsr_value_map_get(&self->values, value));
        return;
    }
    put_number(self, UINT64_MAX);
    put_text(self, tsr_op_name(owner), strlen(tsr_op_name(owner)));
    put_attributes(self, owner);
    put_type(self, mlirValueGetType(value));
}

static void put_block(identifier *self, MlirBlock block);

static void put_op(identifier *self, MlirOperation op) {
    if (is_placeless(op) || tsr_sr_op_plain(op) == TSR_SR_EXPORT_MANIFEST ||
        tsr_op_is(op, TSR_GRAPH_VERIFY_NUMERICS))
        return;
    put_text(self, tsr_op_name(op), strlen(tsr_op_name(op)));
    put_number(self, tsr_op_operand_count(op));
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) put_operand(self, tsr_op_operand(op, i));
    put_attributes(self, op);
    put_number(self, tsr_op_result_count(op));
    for (size_t i = 0; i < tsr_op_result_count(op); i++) name_value(self, tsr_op_result(op, i));
    intptr_t region_count = mlirOperationGetNumRegions(op);
    put_number(self, (uint64_t)region_count);
    for (intptr_t i = 0; i < region_count; i++) {
        MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, i));
        if (!mlirBlockIsNull(block)) put_block(self, block);
    }
    put_text(self, "", 0);
}

/* Regions have one block each, and are as deep as verified programs may be. */
static void put_block(identifier *self, MlirBlock block) {
    intptr_t count = mlirBlockGetNumArguments(block);
    put_number(self, (uint64_t)count);
    for (intptr_t i = 0; i < count; i++) name_value(self, mlirBlockGetArgument(block, i));
    TSR_FOR_EACH_OP(op, block) put_op(self, op);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static int by_symbol(const void *a, const void *b) {
    return strcmp(tsr_op_symbol(*(const MlirOperation *)a),
                  tsr_op_symbol(*(const MlirOperation *)b));
}

static bool is_function(MlirOperation op) {
    return tsr_op_is(op, TSR_FUNC_FUNC) && tsr_op_has_body(op);
}

static void collect_functions(identifier *self, MlirModule module) {
    size_t count = 0;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) count += is_function(op);
    self->funcs = TSR_NEW(&self->arena, MlirOperation, count + 1);
    TSR_NEED(self->funcs);
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (is_function(op)) self->funcs[self->func_count++] = op;
    }
    qsort(self->funcs, count, sizeof *self->funcs, by_symbol);
}

static void hash_module(identifier *self, MlirOperation module) {
    tsr_hasher_init(&self->hasher);
    tsr_hasher_update(&self->hasher, tag, sizeof tag);
    for (intptr_t i = 0; i < mlirOperationGetNumAttributes(module); i++) {
        MlirNamedAttribute named = mlirOperationGetAttribute(module, i);
        MlirStringRef name = mlirIdentifierStr(named.name);
        if (!is_ignored(name) && !is_among(name, ignored_of_module, TSR_COUNT(ignored_of_module)))
            put_named(self, named);
    }
    for (size_t i = 0; i < self->func_count; i++) put_op(self, self->funcs[i]);
}

static void record(identifier *self, MlirOperation module, MlirContext context) {
    MlirNamedAttribute named[TSR_HYPERPARAMETERS_MAX];
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest digest = tsr_hasher_finish(&self->hasher);
    size_t count = self->identity.hyperparameter_count;
    tsr_digest_format(&digest, hex);
    tsr_op_set(module, TSR_OPERATIONS_NAME, tsr_attr_make_string(context, hex));
    for (size_t i = 0; i < count; i++)
        named[i] = mlirNamedAttributeGet(mlirIdentifierGet(context, tsr_ref(self->list[i].name)),
                                         tsr_attr_make_string(context, self->list[i].value));
    tsr_op_set(module, TSR_HYPERPARAMETERS_NAME,
               mlirDictionaryAttrGet(context, (intptr_t)count, named));
}

bool tsr_pass_identify(MlirModule module) {
    identifier self = {.value_count = 0};
    collect_functions(&self, module);
    list_hyperparameters(&self);
    hash_module(&self, mlirModuleGetOperation(module));
    record(&self, mlirModuleGetOperation(module), mlirModuleGetContext(module));
    if (!self.too_many) mark_optimizers(&self);
    tsr_buffer_finish(&self.text);
    tsr_arena_finish(&self.arena);
    return !self.failed;
}

/* ---- reading it back ------------------------------------------------------------------------- */

bool tsr_graph_identity_read(MlirModule module, tsr_arena *arena, tsr_digest *out_operations,
                             tsr_identity *out_identity) {
    MlirOperation self = mlirModuleGetOperation(module);
    const char *hex = tsr_op_string(self, TSR_OPERATIONS_NAME);
    MlirAttribute all = tsr_op_attr(self, TSR_HYPERPARAMETERS_NAME);
    if (!hex || !tsr_digest_parse(hex, strlen(hex), out_operations)) return false;
    bool has = !mlirAttributeIsNull(all) && mlirAttributeIsADictionary(all);
    size_t count = has ? (size_t)mlirDictionaryAttrGetNumElements(all) : 0;
    tsr_hyperparameter *list = TSR_NEW(arena, tsr_hyperparameter, count + 1);
    TSR_NEED(list);
    for (size_t i = 0; i < count; i++) {
        MlirNamedAttribute named = mlirDictionaryAttrGetElement(all, (intptr_t)i);
        const char *value = tsr_attr_string(named.attribute);
        list[i] =
            (tsr_hyperparameter){mlirIdentifierStr(named.name).data, value ? value : "", false};
    }
    *out_identity = (tsr_identity){.hyperparameter_count = count, .hyperparameters = list};
    return true;
}
