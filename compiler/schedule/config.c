/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/schedule/config.h"

#include "compiler/graph/effects/effects.h"
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/names.h"
#include "compiler/resilience/resilience.h"
#include "runtime/base/io/io.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Programs with fewer tensors than this exceed no limit of the config and are not checked. */
enum { CHECKED_TENSORS_MIN = 10000 };

/* ---- tensors ---- */

static int by_tensor_name(const void *a, const void *b) {
    return strcmp(((const tsr_config_tensor *)a)->name, ((const tsr_config_tensor *)b)->name);
}

/* A splat becomes an init rule, which takes no space in the weights, if the config can represent
 * its value exactly. */
static bool is_rule(tsr_dtype dtype, double value) {
    bool wide = !tsr_dtype_is_float(dtype) && fabs(value) > 0x1p53;
    return isfinite(value) && !wide;
}

static tsr_config_tensor constant_tensor(MlirOperation op, const char *name) {
    tsr_type type = {0};
    double value;
    tsr_value_type(tsr_op_result(op, 0), &type);
    tsr_config_tensor tensor = {.name = name,
                                .role = TSR_ROLE_CONSTANT,
                                .dtype = type.dtype,
                                .shape = type.shape,
                                .init = TSR_INIT_DATA};
    if (tsr_attr_splat(tsr_op_attr(op, "value"), &value) && is_rule(type.dtype, value)) {
        tensor.init = TSR_INIT_CONSTANT;
        tensor.init_a = value;
    }
    return tensor;
}

static bool is_entry(MlirOperation op) { return tsr_graph_is_lowered_func(op); }

/* Adds the constants that entries pass to kernels; equal names are equal constants. */
static TSR_RESULT add_constants(tsr_ctx *ctx, MlirModule module, tsr_config_tensor *tensors,
                                size_t *count, size_t capacity) {
    tsr_names known = {0};
    tsr_result result = TSR_SUCCESS;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!is_entry(func)) continue;
        for (MlirOperation op = mlirBlockGetFirstOperation(tsr_op_body(func));
             !mlirOperationIsNull(op); op = tsr_op_next_(op)) {
            const char *name = tsr_op_string(op, TSR_CONSTANT_NAME);
            if (!tsr_op_is(op, TSR_GRAPH_CONSTANT)) continue;
            if (!name)
                FAIL_GOTO(ctx, result, TSR_INTERNAL, "@%s holds a constant without a name",
                          tsr_op_symbol(func));
            if (tsr_names_add(&known, name, (uint32_t)*count) != *count) continue;
            TSR_ASSERT(*count < capacity);
            tensors[(*count)++] = constant_tensor(op, name);
        }
    }
done:
    tsr_names_finish(&known);
    return result;
}

static size_t count_constants(MlirModule module) {
    size_t count = 0;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!is_entry(func)) continue;
        for (MlirOperation op = mlirBlockGetFirstOperation(tsr_op_body(func));
             !mlirOperationIsNull(op); op = tsr_op_next_(op))
            count += tsr_op_is(op, TSR_GRAPH_CONSTANT);
    }
    return count;
}

/* Collects parameters and state, with capacity for the constants. */
static TSR_RESULT collect_declared(tsr_ctx *ctx, MlirModule module, tsr_arena *arena,
                                   tsr_config *config, size_t *out_capacity) {
    tsr_graph_tensor *declared = NULL;
    size_t count = 0;
    TRY(ctx, tsr_graph_tensors(ctx, module, arena, &declared, &count));
    size_t capacity = count + count_constants(module);
    config->tensors = TSR_NEW(arena, tsr_config_tensor, capacity + 1);
    if (!config->tensors) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", capacity);
    for (size_t i = 0; i < count; i++) {
        const tsr_graph_tensor *from = &declared[i];
        bool drawn = from->init == TSR_INIT_UNIFORM || from->init == TSR_INIT_NORMAL;
        config->tensors[config->tensor_count++] =
            (tsr_config_tensor){.name = from->name,
                                .role = from->role,
                                .of = from->of,
                                .kind = from->kind,
                                .dtype = from->type.dtype,
                                .shape = from->type.shape,
                                .init = from->init,
                                .init_a = from->init_a,
                                .init_b = from->init_b,
                                .init_stream = drawn ? tsr_name_stream(from->name) : 0,
                                .frozen = from->frozen,
                                .no_decay = from->no_decay,
                                .lr_factor = from->lr_factor};
    }
    *out_capacity = capacity;
    return TSR_SUCCESS;
}

static TSR_RESULT collect_tensors(tsr_ctx *ctx, MlirModule module, tsr_arena *arena,
                                  tsr_config *config) {
    size_t capacity = 0;
    TRY(ctx, collect_declared(ctx, module, arena, config, &capacity));
    TRY(ctx, add_constants(ctx, module, config->tensors, &config->tensor_count, capacity));
    qsort(config->tensors, config->tensor_count, sizeof *config->tensors, by_tensor_name);
    return TSR_SUCCESS;
}

/* ---- entries ---- */

static int by_entry_name(const void *a, const void *b) {
    return strcmp(((const tsr_config_entry *)a)->name, ((const tsr_config_entry *)b)->name);
}

/* Rows per call: the first dimension of the data inputs, or of any input of an entry with
 * independent rows. tessera-verify has checked on the source that all agree, and the config is
 * checked again. */
static uint64_t find_batch(const tsr_graph_entry *entry) {
    for (size_t i = 0; i < entry->input_count; i++) {
        const tsr_graph_port *port = &entry->inputs[i];
        if (port->source != TSR_PORT_DATA && !entry->rows_independent) continue;
        return port->type.shape.rank > 0 ? port->type.shape.dims[0] : 0;
    }
    return 0;
}

static bool reads(MlirOperation func, tsr_op id) {
    bool found = false;
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) found |= tsr_op_is(op, id);
    return found;
}

/* Adds an input that the runtime fills: "step", or "step_", "step__", … if an input already has
 * that name. */
static bool add_port(tsr_config_port port, tsr_arena *arena, tsr_config_entry *to) {
    for (size_t i = 0; i < to->input_count && port.name; i++) {
        if (strcmp(to->inputs[i].name, port.name) != 0) continue;
        port.name = tsr_arena_printf(arena, "%s_", port.name);
        i = (size_t)-1; /* the new name may be taken too */
    }
    to->inputs[to->input_count++] = port;
    return port.name;
}

static bool add_filled(const tsr_graph_entry *from, tsr_op op, tsr_port_source source,
                       tsr_arena *arena, tsr_config_entry *to) {
    tsr_config_port port = {
        .name = tsr_port_source_name(source), .dtype = TSR_DTYPE_I64, .source = source};
    return !reads(from->func, op) || add_port(port, arena, to);
}

/* "lr" for "train.lr": copies of an entry have ports of the same names. */
static const char *local_name(const char *key, const tsr_config_entry *entry) {
    size_t length = strlen(entry->name);
    bool of_entry = strncmp(key, entry->name, length) == 0 && key[length] == '.';
    return of_entry && key[length + 1] ? key + length + 1 : key;
}

/* One input for each hyper-parameter and type. */
static bool add_number(MlirOperation op, tsr_arena *arena, tsr_config_entry *to) {
    const char *key = tsr_op_string(op, "key");
    tsr_config_hyperparameter *of = TSR_NEW(arena, tsr_config_hyperparameter, 1);
    tsr_type type = {0};
    if (!of) return false;
    *of = (tsr_config_hyperparameter){.name = key};
    tsr_value_type(tsr_op_result(op, 0), &type);
    tsr_op_f64(op, "value", &of->value);
    tsr_hyperparameter_range(op, &of->least, &of->most);
    for (size_t i = 0; i < to->input_count; i++)
        if (tsr_port_is_hyperparameter(&to->inputs[i], key) && to->inputs[i].dtype == type.dtype)
            return true;
    return add_port((tsr_config_port){.name = local_name(key, to),
                                      .dtype = type.dtype,
                                      .source = TSR_PORT_HYPERPARAMETER,
                                      .hyperparameter = of},
                    arena, to);
}

static bool add_numbers(const tsr_graph_entry *from, tsr_arena *arena, tsr_config_entry *to) {
    bool added = true;
    TSR_FOR_EACH_OP(op, tsr_op_body(from->func)) {
        if (tsr_op_is(op, TSR_GRAPH_HYPERPARAMETER)) added = added && add_number(op, arena, to);
    }
    return added;
}

static tsr_config_port *copy_ports(const tsr_graph_port *ports, size_t count, size_t filled,
                                   bool inputs, tsr_arena *arena) {
    tsr_config_port *copies = TSR_NEW(arena, tsr_config_port, count + filled);
    for (size_t i = 0; i < count && copies; i++)
        copies[i] = (tsr_config_port){.name = ports[i].name,
                                      .dtype = ports[i].type.dtype,
                                      .shape = ports[i].type.shape,
                                      .source = inputs ? ports[i].source : TSR_PORT_ARGUMENT,
                                      .may_be_infinite = ports[i].may_be_infinite,
                                      .watched = ports[i].watched};
    return copies;
}

/* The largest number of inputs that the runtime fills: step, seed, hyper-parameters. */
static size_t count_filled(MlirOperation func) {
    size_t count = 2;
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) count += tsr_op_is(op, TSR_GRAPH_HYPERPARAMETER);
    return count;
}

static void collect_open(const tsr_graph_entry *from, tsr_config_entry *to) {
    tsr_graph_open open;
    if (!tsr_graph_open_read(from->func, &open)) return;
    to->open = (tsr_open_dim){open.dim, (uint64_t)open.low, (uint64_t)open.high};
    for (size_t i = 0; i < from->input_count; i++)
        to->inputs[i].dim_times = (uint64_t)open.inputs[i];
    for (size_t i = 0; i < from->output_count; i++)
        to->outputs[i].dim_times = (uint64_t)open.outputs[i];
}

static TSR_RESULT collect_entry(tsr_ctx *ctx, const tsr_graph_entry *from, tsr_arena *arena,
                                tsr_config_entry *to) {
    *to = (tsr_config_entry){
        .name = from->name,
        .kind = from->kind,
        .rows_independent = from->rows_independent,
        .input_count = from->input_count,
        .output_count = from->output_count,
        .inputs =
            copy_ports(from->inputs, from->input_count, count_filled(from->func), true, arena),
        .outputs = copy_ports(from->outputs, from->output_count, 0, false, arena)};
    if (!to->inputs || !to->outputs)
        FAIL(ctx, TSR_MEMORY, "no memory for the ports of @%s", from->name);
    to->batch = find_batch(from);
    collect_open(from, to);
    to->states_effects = tsr_effects_read(from->func, &to->effects);
    if (!add_filled(from, TSR_GRAPH_STEP, TSR_PORT_STEP, arena, to) ||
        !add_filled(from, TSR_GRAPH_SEED, TSR_PORT_SEED, arena, to) ||
        !add_numbers(from, arena, to))
        FAIL(ctx, TSR_MEMORY, "no memory for the ports of @%s", from->name);
    return TSR_SUCCESS;
}

tsr_result tsr_module_check_tensors(tsr_ctx *ctx, MlirModule module) {
    tsr_config config = {.version_major = TSR_CONFIG_VERSION_MAJOR,
                         .version_minor = TSR_CONFIG_VERSION_MINOR,
                         .name = "program",
                         .producer = "tessera",
                         .numerics = "portable",
                         .virtual_ranks = 1};
    tsr_arena arena = {0};
    tsr_result result = TSR_SUCCESS;
    size_t capacity = 0, size = 0;
    char *json = NULL;
    TRY_GOTO(ctx, result, collect_declared(ctx, module, &arena, &config, &capacity));
    if (config.tensor_count >= CHECKED_TENSORS_MIN)
        TRY_GOTO(ctx, result, tsr_config_encode(ctx, &config, &arena, &json, &size));
done:
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_module_config(tsr_ctx *ctx, MlirModule module, const char *name, tsr_arena *arena,
                             tsr_config *out_config) {
    const char *symbol = tsr_op_symbol(mlirModuleGetOperation(module));
    const char *numerics = tsr_op_string(mlirModuleGetOperation(module), TSR_NUMERICS_NAME);
    tsr_config config = {.version_major = TSR_CONFIG_VERSION_MAJOR,
                         .version_minor = TSR_CONFIG_VERSION_MINOR,
                         .name = symbol[0] ? symbol : name,
                         .producer = "tessera " TSR_VERSION_TEXT,
                         .numerics = numerics ? "native" TSR_NUMERICS_VERSION
                                              : "portable" TSR_NUMERICS_VERSION,
                         .virtual_ranks = tsr_sr_virtual_ranks(module)};
    tsr_graph_entry *entries = NULL;
    TRY(ctx, tsr_graph_entries(ctx, module, arena, &entries, &config.entry_count));
    TRY(ctx, collect_tensors(ctx, module, arena, &config));
    if (tsr_graph_identity_read(module, arena, &config.operations, &config.identity))
        config.identity.program = tsr_config_program_digest(&config);
    config.entries = TSR_NEW(arena, tsr_config_entry, config.entry_count + 1);
    if (!config.entries) FAIL(ctx, TSR_MEMORY, "no memory for %zu entries", config.entry_count);
    for (size_t i = 0; i < config.entry_count; i++)
        TRY(ctx, collect_entry(ctx, &entries[i], arena, &config.entries[i]));
    qsort(config.entries, config.entry_count, sizeof *config.entries, by_entry_name);
    TRY(ctx, tsr_config_verify(ctx, &config, TSR_COMPILE));
    *out_config = config;
    return TSR_SUCCESS;
}

/* ---- data ---- */

/* Maps each tensor to its data: declared tensors first, then constants. */
static void number_data(MlirModule module, const tsr_graph_tensor *declared, size_t declared_count,
                        MlirAttribute *data, tsr_names *out_names) {
    uint32_t count = 0;
    for (size_t i = 0; i < declared_count; i++)
        if (tsr_names_add(out_names, declared[i].name, count) == count)
            data[count++] = declared[i].data;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!is_entry(func)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
            const char *name = tsr_op_string(op, TSR_CONSTANT_NAME);
            if (name && tsr_names_add(out_names, name, count) == count)
                data[count++] = tsr_op_attr(op, "value");
        }
    }
}

tsr_result tsr_module_data(tsr_ctx *ctx, MlirModule module, const tsr_config *config,
                           tsr_arena *arena, MlirAttribute **out_data) {
    tsr_graph_tensor *declared = NULL;
    size_t declared_count = 0;
    tsr_names names = {0};
    tsr_result result = TSR_SUCCESS;
    MlirAttribute *data = TSR_NEW(arena, MlirAttribute, config->tensor_count + 1), *all = NULL;
    if (!data) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", config->tensor_count);
    TRY(ctx, tsr_graph_tensors(ctx, module, arena, &declared, &declared_count));
    all = TSR_NEW(arena, MlirAttribute, declared_count + count_constants(module) + 1);
    if (!all) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", declared_count);
    number_data(module, declared, declared_count, all, &names);
    for (size_t i = 0; i < config->tensor_count; i++) {
        data[i] = mlirAttributeGetNull();
        if (config->tensors[i].init != TSR_INIT_DATA) continue;
        uint32_t number = tsr_names_find(&names, config->tensors[i].name);
        if (number == TSR_NAME_ABSENT)
            FAIL_GOTO(ctx, result, TSR_INTERNAL, "the data of tensor '%s' is not in the module",
                      config->tensors[i].name);
        data[i] = all[number];
    }
    *out_data = data;
done:
    tsr_names_finish(&names);
    return result;
}
