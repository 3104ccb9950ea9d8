/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifies a config. The JSON is in config_json.c.
 */
#include "manifests/config.h"

#include "manifests/anchor.h"
#include "runtime/base/array.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/io/json.h"
#include "runtime/base/plural.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t json_integer_max = UINT64_C(1) << 53;

static const char *const role_names[] = {
    [TSR_ROLE_PARAM] = "param", [TSR_ROLE_STATE] = "state", [TSR_ROLE_CONSTANT] = "constant"};
static const char *const init_names[] = {[TSR_INIT_DATA] = "data",
                                         [TSR_INIT_CONSTANT] = "constant",
                                         [TSR_INIT_UNIFORM] = "uniform",
                                         [TSR_INIT_NORMAL] = "normal"};
static const char *const source_names[] = {[TSR_PORT_ARGUMENT] = "argument",
                                           [TSR_PORT_DATA] = "data",
                                           [TSR_PORT_STEP] = "step",
                                           [TSR_PORT_SEED] = "seed",
                                           [TSR_PORT_HYPERPARAMETER] = "hyperparameter"};
static const char *const kind_names[] = {
    [TSR_ENTRY_INFER] = "infer", [TSR_ENTRY_TRAIN] = "train", [TSR_ENTRY_EVAL] = "eval"};

static const char *const effect_names[] = {"random", "io",       "memory",
                                           "state",  "movement", "collective"};
static_assert(TSR_COUNT(effect_names) == TSR_EFFECT_COUNT &&
                  TSR_EFFECT_COLLECTIVE == 1 << (TSR_EFFECT_COUNT - 1),
              "a name for each effect, in the order of their numbers");

/* Defines both directions of a name table; a row without a text is not a value. */
#define NAME_TABLE(function, type, table)                                                          \
    const char *function##_name(type value) {                                                      \
        size_t row = (size_t)value;                                                                \
        return row < TSR_COUNT(table) && table[row] ? table[row] : "?";                            \
    }                                                                                              \
    bool function##_parse(const char *name, type *out_value) {                                     \
        for (size_t row = 0; row < TSR_COUNT(table); row++) {                                      \
            if (!table[row] || strcmp(table[row], name) != 0) continue;                            \
            *out_value = (type)row;                                                                \
            return true;                                                                           \
        }                                                                                          \
        return false;                                                                              \
    }

NAME_TABLE(tsr_tensor_role, tsr_tensor_role, role_names)
NAME_TABLE(tsr_init_kind, tsr_init_kind, init_names)
NAME_TABLE(tsr_port_source, tsr_port_source, source_names)

bool tsr_port_is_filled(tsr_port_source source) {
    return source == TSR_PORT_STEP || source == TSR_PORT_SEED || source == TSR_PORT_HYPERPARAMETER;
}

bool tsr_port_is_hyperparameter(const tsr_config_port *port, const char *name) {
    return port->source == TSR_PORT_HYPERPARAMETER && strcmp(port->hyperparameter->name, name) == 0;
}

NAME_TABLE(tsr_entry_kind, tsr_entry_kind, kind_names)

const char *tsr_effect_name(size_t index) {
    TSR_ASSERT(index < TSR_EFFECT_COUNT);
    return effect_names[index];
}

bool tsr_effect_parse(const char *name, tsr_effect *out_effect) {
    for (size_t i = 0; i < TSR_EFFECT_COUNT; i++) {
        if (strcmp(effect_names[i], name) != 0) continue;
        *out_effect = (tsr_effect)(1 << i);
        return true;
    }
    return false;
}

const char *tsr_effects_format(uint32_t effects, char out_text[static TSR_EFFECTS_TEXT_MAX]) {
    int at = snprintf(out_text, TSR_EFFECTS_TEXT_MAX, "%s", effects ? "" : "none");
    for (size_t i = 0; i < TSR_EFFECT_COUNT; i++)
        if (effects >> i & 1)
            at += snprintf(out_text + at, TSR_EFFECTS_TEXT_MAX - (size_t)at, "%s%s", at ? ", " : "",
                           effect_names[i]);
    return out_text;
}

bool tsr_text_valid(const char *text, size_t size_max) {
    if (!text) return false;
    size_t size = strnlen(text, size_max + 1);
    if (size > size_max || !tsr_utf8_valid(text, size)) return false;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        /* C0, DEL, and C1 in UTF-8. */
        if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)text[i + 1] < 0xa0)) return false;
    }
    return true;
}

bool tsr_name_valid(const char *name) { return tsr_text_valid(name, TSR_NAME_MAX) && name[0]; }

uint32_t tsr_name_stream(const char *name) {
    tsr_digest digest = tsr_hash(name, strlen(name));
    return (uint32_t)digest.bytes[0] | (uint32_t)digest.bytes[1] << 8 |
           (uint32_t)digest.bytes[2] << 16 | (uint32_t)digest.bytes[3] << 24;
}

#define FIND_BY_NAME(items, count, wanted)                                                         \
    for (size_t low = 0, high = (count); low < high;) {                                            \
        size_t middle = low + (high - low) / 2;                                                    \
        int order = strcmp((wanted), (items)[middle].name);                                        \
        if (order == 0) return &(items)[middle];                                                   \
        if (order < 0)                                                                             \
            high = middle;                                                                         \
        else                                                                                       \
            low = middle + 1;                                                                      \
    }                                                                                              \
    return NULL

const tsr_config_tensor *tsr_config_find_tensor(const tsr_config *config, const char *name) {
    FIND_BY_NAME(config->tensors, config->tensor_count, name);
}

static const tsr_config_entry *find_exact(const tsr_config *config, const char *name) {
    FIND_BY_NAME(config->entries, config->entry_count, name);
}

const tsr_config_entry *tsr_config_find_entry(const tsr_config *config, const char *name) {
    const tsr_config_entry *found = find_exact(config, name);
    size_t copy = found ? 0 : tsr_anchor_find(config, name);
    return found || copy == config->entry_count ? found : &config->entries[copy];
}

/* ---- verification ---- */

/* The object that is being verified; `what` is followed by its name in messages. */
typedef struct checker {
    tsr_ctx *ctx;
    tsr_code code;
    const char *what, *name;
} checker;

#define EXPECT(p, condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            tsr_result r_ = tsr_fail_((p)->ctx, (p)->code, 0, __FILE__, __LINE__, __VA_ARGS__);    \
            return tsr_error_prefix((p)->ctx, r_, "config: %s '%s'", (p)->what, (p)->name);        \
        }                                                                                          \
    } while (0)

/* `smallest`: the smallest allowed dimension. */
static TSR_RESULT check_type(const checker *p, tsr_dtype dtype, const tsr_shape *shape,
                             uint64_t smallest) {
    uint64_t size;
    EXPECT(p, tsr_dtype_size(dtype), "dtype: expected a known number, got %u", (unsigned)dtype);
    EXPECT(p, shape->rank <= TSR_RANK_MAX, "shape: expected rank 0 ... %d, got %u", TSR_RANK_MAX,
           shape->rank);
    tsr_shape whole = *shape; /* the strides must fit even if a dimension is empty */
    for (uint32_t i = 0; i < shape->rank; i++) {
        EXPECT(p, shape->dims[i] >= smallest && shape->dims[i] <= json_integer_max,
               "shape: expected dims[%u] in %" PRIu64 " ... 2^53, got %" PRIu64, i, smallest,
               shape->dims[i]);
        if (whole.dims[i] == 0) whole.dims[i] = 1;
    }
    char text[TSR_TYPE_TEXT_MAX];
    EXPECT(p, tsr_shape_size(&whole, dtype, &size) && size <= json_integer_max,
           "shape: expected at most 2^53 bytes, got %s", tsr_type_format(dtype, shape, text));
    return TSR_SUCCESS;
}

/* Returns true if every element can be `value`. */
static bool holds(tsr_dtype dtype, double value) {
    if (tsr_dtype_is_float(dtype)) return tsr_dtype_rounds_finite(dtype, value);
    /* above this, a double skips integers */
    return tsr_dtype_holds(dtype, value) && fabs(value) <= (double)json_integer_max;
}

static TSR_RESULT check_init(const checker *p, const tsr_config_tensor *tensor) {
    bool random = tensor->init == TSR_INIT_UNIFORM || tensor->init == TSR_INIT_NORMAL;
    double a = tensor->init_a, b = tensor->init_b;
    EXPECT(p, (unsigned)tensor->init <= TSR_INIT_NORMAL, "init: expected a known number, got %u",
           (unsigned)tensor->init);
    if (tensor->init == TSR_INIT_DATA) return TSR_SUCCESS;
    EXPECT(p, isfinite(a), "init: expected a finite number, got %g", a);
    if (!random) {
        EXPECT(p, holds(tensor->dtype, a), "init: expected a value that %s can hold, got %.17g",
               tsr_dtype_name(tensor->dtype), a);
        return TSR_SUCCESS;
    }
    EXPECT(p, isfinite(b), "init: expected a finite number, got %g", b);
    EXPECT(p, tsr_dtype_is_float(tensor->dtype),
           "init: expected a float dtype for random values, got %s", tsr_dtype_name(tensor->dtype));
    EXPECT(p, holds(tensor->dtype, a) && holds(tensor->dtype, b),
           "init: expected a range that %s can hold, got %.17g and %.17g",
           tsr_dtype_name(tensor->dtype), a, b);
    if (tensor->init == TSR_INIT_UNIFORM)
        EXPECT(p, a < b, "init: expected a < b, got [%.17g, %.17g)", a, b);
    else
        EXPECT(p, b >= 0, "init: expected a standard deviation >= 0, got %.17g", b);
    return TSR_SUCCESS;
}

static TSR_RESULT check_tensor(const checker *p, const tsr_config *config, size_t index) {
    const tsr_config_tensor *tensor = &config->tensors[index];
    bool state = tensor->role == TSR_ROLE_STATE;
    EXPECT(p, tensor->role >= TSR_ROLE_PARAM && tensor->role <= TSR_ROLE_CONSTANT,
           "role: expected a known number, got %u", (unsigned)tensor->role);
    uint64_t smallest = tensor->role == TSR_ROLE_CONSTANT ? 0 : 1; /* no empty parameters */
    TRY(p->ctx, check_type(p, tensor->dtype, &tensor->shape, smallest));
    EXPECT(p, state || (!tensor->of && !tensor->kind),
           "role: expected 'of' and 'kind' with role state only, got role %s",
           tsr_tensor_role_name(tensor->role));
    if (state) {
        EXPECT(p, tsr_name_valid(tensor->of), "of: expected the name of a parameter, got none");
        EXPECT(p, tsr_name_valid(tensor->kind), "kind: expected a kind of state, got none");
        const tsr_config_tensor *of = tsr_config_find_tensor(config, tensor->of);
        EXPECT(p, of && of->role == TSR_ROLE_PARAM, "of: expected a parameter, got %s '%s'",
               of ? tsr_tensor_role_name(of->role) : "the unknown name", tensor->of);
    }
    EXPECT(p, !tensor->lr_factor || (isfinite(tensor->lr_factor) && tensor->lr_factor > 0),
           "group: expected a factor > 0, got %g", tensor->lr_factor);
    bool trained = tensor->no_decay || tensor->lr_factor;
    EXPECT(p, tensor->role == TSR_ROLE_PARAM || (!trained && !tensor->frozen),
           "group: expected one with role param only, got role %s",
           tsr_tensor_role_name(tensor->role));
    EXPECT(p, !trained || !tensor->frozen,
           "group: expected frozen alone, got it with a rate or decay");
    return check_init(p, tensor);
}

typedef struct stream_row {
    uint32_t stream;
    size_t tensor;
} stream_row;

static int compare_streams(const void *a, const void *b) {
    const stream_row *x = a, *y = b;
    if (x->stream != y->stream) return x->stream < y->stream ? -1 : 1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

/* Two tensors that draw from the same stream would be equal, not independent. */
static TSR_RESULT check_streams(tsr_ctx *ctx, const tsr_config *config, tsr_code code) {
    tsr_result result = TSR_SUCCESS;
    size_t count = 0;
    stream_row *rows = calloc(config->tensor_count + 1, sizeof *rows);
    if (!rows) FAIL(ctx, TSR_MEMORY, "no memory to verify %zu tensors", config->tensor_count);
    for (size_t i = 0; i < config->tensor_count; i++)
        if (config->tensors[i].init >= TSR_INIT_UNIFORM)
            rows[count++] = (stream_row){config->tensors[i].init_stream, i};
    qsort(rows, count, sizeof *rows, compare_streams);
    for (size_t i = 1; i < count; i++)
        if (rows[i].stream == rows[i - 1].stream)
            FAIL_GOTO(ctx, result, code,
                      "config: tensors '%s' and '%s': expected two random streams, got %u for "
                      "both; rename one",
                      config->tensors[rows[i - 1].tensor].name,
                      config->tensors[rows[i].tensor].name, rows[i].stream);
done:
    free(rows);
    return result;
}

/* What holds for step and seed does not hold here: the value is a number of the config. */
static TSR_RESULT check_number(const checker *p, const tsr_config_entry *entry,
                               const tsr_config_port *port) {
    char text[TSR_TYPE_TEXT_MAX];
    EXPECT(p, entry->kind == TSR_ENTRY_TRAIN,
           "source: expected no hyperparameter in an entry of kind %s",
           tsr_entry_kind_name(entry->kind));
    EXPECT(p,
           (port->dtype == TSR_DTYPE_F32 || port->dtype == TSR_DTYPE_F64) && port->shape.rank == 0,
           "expected f32 or f64 for a hyperparameter, got %s",
           tsr_type_format(port->dtype, &port->shape, text));
    const tsr_config_hyperparameter *of = port->hyperparameter;
    EXPECT(p, of && tsr_name_valid(of->name), "hyperparameter: expected a name, got another text");
    EXPECT(p,
           tsr_dtype_rounds_finite(port->dtype, of->least) &&
               tsr_dtype_rounds_finite(port->dtype, of->most),
           "least, most: expected numbers that %s can hold, got %.17g and %.17g",
           tsr_dtype_name(port->dtype), of->least, of->most);
    EXPECT(p, of->value >= of->least && of->value <= of->most,
           "value: expected one in %.17g ... %.17g, got %.17g", of->least, of->most, of->value);
    return TSR_SUCCESS;
}

static TSR_RESULT check_port(const checker *p, const tsr_config_entry *entry, bool input,
                             size_t index) {
    const tsr_config_port *ports = input ? entry->inputs : entry->outputs, *port = &ports[index];
    const char *side = input ? "inputs" : "outputs";
    EXPECT(p, tsr_name_valid(port->name),
           "%s[%zu]: expected a name (1 ... %d bytes of printable UTF-8), got another", side, index,
           TSR_NAME_MAX);
    for (size_t i = 0; i < index; i++)
        EXPECT(p, strcmp(ports[i].name, port->name) != 0,
               "%s[%zu]: expected a new name, got '%s' again (first at %zu)", side, index,
               port->name, i);
    char what[TSR_NAME_MAX + 32], text[TSR_TYPE_TEXT_MAX];
    snprintf(what, sizeof what, "entry '%s': %s", entry->name, side);
    const checker here = {p->ctx, p->code, what, port->name};
    TRY(p->ctx, check_type(&here, port->dtype, &port->shape, 0));
    tsr_port_source last = input ? TSR_PORT_HYPERPARAMETER : TSR_PORT_ARGUMENT;
    EXPECT(&here, port->source >= TSR_PORT_ARGUMENT && port->source <= last,
           "source: expected 1 ... %u, got %u", (unsigned)last, (unsigned)port->source);
    EXPECT(&here, !port->watched || (!input && entry->kind == TSR_ENTRY_TRAIN),
           "watched: expected an output of training, got one of %s",
           input ? "the inputs" : "another entry");
    uint64_t largest = 0;
    EXPECT(&here,
           !port->dim_times ||
               (entry->open.name && port->shape.rank && port->source == TSR_PORT_ARGUMENT &&
                !__builtin_mul_overflow(port->dim_times, entry->open.high, &largest) &&
                port->shape.dims[0] == largest),
           "expected a first dimension of %" PRIu64 " times %" PRIu64 ", got %s", port->dim_times,
           entry->open.high, tsr_type_format(port->dtype, &port->shape, text));
    if (port->source == TSR_PORT_HYPERPARAMETER) return check_number(&here, entry, port);
    if (tsr_port_is_filled(port->source)) {
        EXPECT(&here, port->dtype == TSR_DTYPE_I64 && port->shape.rank == 0,
               "expected i64 for the %s, got %s", tsr_port_source_name(port->source),
               tsr_type_format(port->dtype, &port->shape, text));
        return TSR_SUCCESS;
    }
    EXPECT(&here, !entry->open.name || !entry->rows_independent || port->dim_times == 1,
           "expected the open dim as the rows, which are independent, got %" PRIu64
           " times the dim",
           port->dim_times);
    if (port->source == TSR_PORT_DATA || entry->rows_independent)
        EXPECT(&here, entry->batch && port->shape.rank && port->shape.dims[0] == entry->batch,
               "expected a first dimension of %" PRIu64 " (the batch), got %s", entry->batch,
               tsr_type_format(port->dtype, &port->shape, text));
    return TSR_SUCCESS;
}

static TSR_RESULT check_open(const checker *p, const tsr_config_entry *entry) {
    bool found = false;
    if (!entry->open.name) return TSR_SUCCESS;
    EXPECT(p, tsr_name_valid(entry->open.name),
           "open: expected a name (1 ... %d bytes of printable UTF-8), got another", TSR_NAME_MAX);
    EXPECT(p, entry->kind == TSR_ENTRY_INFER, "open: expected an entry of kind infer, got %s",
           tsr_entry_kind_name(entry->kind));
    EXPECT(p,
           entry->open.low >= 1 && entry->open.low <= entry->open.high &&
               entry->open.high <= json_integer_max,
           "open: expected sizes in 1 ... 2^53, got %" PRIu64 " ... %" PRIu64, entry->open.low,
           entry->open.high);
    EXPECT(p,
           !entry->rows_independent || (entry->open.low == 1 && entry->open.high == entry->batch),
           "open: expected 1 ... %" PRIu64 ", the batch of independent rows, got %" PRIu64
           " ... %" PRIu64,
           entry->batch, entry->open.low, entry->open.high);
    for (size_t i = 0; i < entry->input_count; i++) found |= entry->inputs[i].dim_times > 0;
    EXPECT(p, found, "open: expected an input that gives the size of '%s', got none",
           entry->open.name);
    return TSR_SUCCESS;
}

static TSR_RESULT check_entry(const checker *p, const tsr_config *config, size_t index) {
    const tsr_config_entry *entry = &config->entries[index];
    EXPECT(p, entry->kind >= TSR_ENTRY_INFER && entry->kind <= TSR_ENTRY_EVAL,
           "kind: expected a known number, got %u", (unsigned)entry->kind);
    EXPECT(p,
           entry->batch <= json_integer_max &&
               (entry->kind != TSR_ENTRY_TRAIN || entry->batch % config->virtual_ranks == 0),
           "batch: expected a multiple of the %" PRIu64 " virtual rank%s, got %" PRIu64,
           config->virtual_ranks, TSR_PLURAL(config->virtual_ranks), entry->batch);
    EXPECT(p, !entry->rows_independent || entry->batch,
           "rows_independent: expected a batch, got none");
    EXPECT(p, entry->input_count <= TSR_CONFIG_PORTS_MAX, "inputs: expected at most %d, got %zu",
           TSR_CONFIG_PORTS_MAX, entry->input_count);
    EXPECT(p, entry->output_count <= TSR_CONFIG_PORTS_MAX, "outputs: expected at most %d, got %zu",
           TSR_CONFIG_PORTS_MAX, entry->output_count);
    TRY(p->ctx, check_open(p, entry));
    EXPECT(p, !(entry->states_effects ? entry->effects >> TSR_EFFECT_COUNT : entry->effects),
           "effects: expected a set of %d effects, got %" PRIu32, TSR_EFFECT_COUNT, entry->effects);
    for (size_t i = 0; i < entry->input_count; i++) TRY(p->ctx, check_port(p, entry, true, i));
    for (size_t i = 0; i < entry->output_count; i++) TRY(p->ctx, check_port(p, entry, false, i));
    return TSR_SUCCESS;
}

/* Compares the ports of a copy with those of the copy before it: only sizes of dims may differ. */
static TSR_RESULT check_copy_ports(const checker *p, const char *side, const char *before,
                                   const tsr_config_port *ports, size_t count,
                                   const tsr_config_port *other, size_t other_count) {
    EXPECT(p, count == other_count, "%s: expected %zu, as '%s' has, got %zu", side, other_count,
           before, count);
    for (size_t i = 0; i < count; i++) {
        const tsr_config_port *port = &ports[i], *like = &other[i];
        EXPECT(p, strcmp(port->name, like->name) == 0,
               "%s[%zu]: expected '%s', as in '%s', got '%s'", side, i, like->name, before,
               port->name);
        EXPECT(p, port->dtype == like->dtype, "%s '%s': expected %s, as in '%s', got %s", side,
               port->name, tsr_dtype_name(like->dtype), before, tsr_dtype_name(port->dtype));
        EXPECT(p, port->shape.rank == like->shape.rank,
               "%s '%s': expected rank %" PRIu32 ", as in '%s', got %" PRIu32, side, port->name,
               like->shape.rank, before, port->shape.rank);
        EXPECT(p, port->source == like->source,
               "%s '%s': expected the source %s, as in '%s', got %s", side, port->name,
               tsr_port_source_name(like->source), before, tsr_port_source_name(port->source));
    }
    return TSR_SUCCESS;
}

/* Copies of one entry follow each other, so each is compared with the one before it. */
static TSR_RESULT check_copy(const checker *p, const tsr_config *config, size_t index) {
    if (!tsr_anchor_follows(config, index)) return TSR_SUCCESS;
    const tsr_config_entry *entry = &config->entries[index], *before = entry - 1;
    tsr_anchor anchor, other;
    bool read = tsr_anchor_read(entry->name, &anchor) && tsr_anchor_read(before->name, &other);
    TSR_ASSERT(read);
    EXPECT(p, tsr_anchor_same_symbols(&anchor, &other),
           "expected the symbols of '%s', another copy of '%.*s'", before->name,
           (int)anchor.name_length, entry->name);
    EXPECT(p,
           !entry->open.name == !before->open.name &&
               (!entry->open.name ||
                (strcmp(entry->open.name, before->open.name) == 0 &&
                 entry->open.low == before->open.low && entry->open.high == before->open.high)),
           "open: expected the dim of '%s', another copy of '%.*s'", before->name,
           (int)anchor.name_length, entry->name);
    EXPECT(p, entry->kind == before->kind, "kind: expected %s, as '%s' has, got %s",
           tsr_entry_kind_name(before->kind), before->name, tsr_entry_kind_name(entry->kind));
    TRY(p->ctx, check_copy_ports(p, "inputs", before->name, entry->inputs, entry->input_count,
                                 before->inputs, before->input_count));
    return check_copy_ports(p, "outputs", before->name, entry->outputs, entry->output_count,
                            before->outputs, before->output_count);
}

/* Checks name `index` of a sorted table. */
static TSR_RESULT check_order(tsr_ctx *ctx, tsr_code code, const char *table, size_t index,
                              const char *name, const char *previous) {
    if (!tsr_name_valid(name))
        FAIL(ctx, code,
             "config: %s[%zu]: expected a name (1 ... %d bytes of printable UTF-8), got another",
             table, index, TSR_NAME_MAX);
    if (previous && strcmp(previous, name) >= 0)
        FAIL(ctx, code, "config: %s[%zu]: expected a name after '%s' in byte order, got '%s'",
             table, index, previous, name);
    return TSR_SUCCESS;
}

bool tsr_config_numerics_valid(const char *numerics) {
    static const char *const names[] = {"portable", "native", "portable" TSR_NUMERICS_VERSION,
                                        "native" TSR_NUMERICS_VERSION};
    for (size_t i = 0; i < TSR_COUNT(names); i++)
        if (strcmp(numerics, names[i]) == 0) return true;
    return false;
}

bool tsr_config_numerics_native(const char *numerics) {
    return strncmp(numerics, "native", strlen("native")) == 0;
}

static TSR_RESULT check_head(tsr_ctx *ctx, const tsr_config *config, tsr_code code) {
    if (!tsr_name_valid(config->name))
        FAIL(ctx, code, "config: name: expected 1 ... %d bytes of printable UTF-8, got another",
             TSR_NAME_MAX);
    if (!tsr_name_valid(config->producer))
        FAIL(ctx, code, "config: producer: expected 1 ... %d bytes of printable UTF-8, got another",
             TSR_NAME_MAX);
    if (!tsr_name_valid(config->numerics) || !tsr_config_numerics_valid(config->numerics))
        FAIL(ctx, TSR_VERSION,
             "config: numerics: expected 'portable' or 'native', with '" TSR_NUMERICS_VERSION
             "' or without, got '%s'",
             tsr_name_valid(config->numerics) ? config->numerics : "?");
    if (config->virtual_ranks < 1 || config->virtual_ranks > TSR_CONFIG_VIRTUAL_RANKS_MAX)
        FAIL(ctx, code, "config: virtualRanks: expected 1 ... %d, got %" PRIu64,
             TSR_CONFIG_VIRTUAL_RANKS_MAX, config->virtual_ranks);
    if (config->tensor_count > TSR_CONFIG_TENSORS_MAX)
        FAIL(ctx, code,
             "config: tensors: expected at most %d, got %zu; stack tensors of one shape into one",
             TSR_CONFIG_TENSORS_MAX, config->tensor_count);
    if (config->entry_count > TSR_CONFIG_ENTRIES_MAX)
        FAIL(ctx, code, "config: entries: expected at most %d, got %zu", TSR_CONFIG_ENTRIES_MAX,
             config->entry_count);
    return TSR_SUCCESS;
}

/* A later minor version may have a digest of more than this version knows. */
static TSR_RESULT check_identity(tsr_ctx *ctx, const tsr_config *config, tsr_code code) {
    char expected[TSR_DIGEST_HEX + 1], got[TSR_DIGEST_HEX + 1];
    tsr_digest digest = tsr_config_program_digest(config);
    bool known = config->version_minor <= TSR_CONFIG_VERSION_MINOR;
    if (known && !tsr_digest_equal(&digest, &config->identity.program)) {
        tsr_digest_format(&digest, expected);
        tsr_digest_format(&config->identity.program, got);
        FAIL(ctx, code, "config: program: expected %s for its contents, got %s", expected, got);
    }
    const char *wrong = tsr_identity_check(&config->identity);
    if (wrong) FAIL(ctx, code, "config: %s", wrong);
    return TSR_SUCCESS;
}

/* The value of an input is the one that is listed, if its name is. */
static TSR_RESULT check_listed(const checker *p, const tsr_identity *identity,
                               const tsr_config_port *port) {
    const tsr_config_hyperparameter *of = port->hyperparameter;
    const tsr_hyperparameter *listed = of ? tsr_identity_find(identity, of->name) : NULL;
    EXPECT(p, !listed || strtod(listed->value, NULL) == of->value,
           "inputs '%s': expected the value %s of hyperparameter '%s', got %.17g", port->name,
           listed->value, listed->name, of->value);
    return TSR_SUCCESS;
}

static TSR_RESULT check_inputs(tsr_ctx *ctx, const tsr_config *config, tsr_code code) {
    for (size_t i = 0; i < config->entry_count; i++) {
        const checker p = {ctx, code, "entry", config->entries[i].name};
        for (size_t k = 0; k < config->entries[i].input_count; k++)
            TRY(ctx, check_listed(&p, &config->identity, &config->entries[i].inputs[k]));
    }
    return TSR_SUCCESS;
}

tsr_result tsr_config_verify(tsr_ctx *ctx, const tsr_config *config, tsr_code code) {
    TRY(ctx, check_head(ctx, config, code));
    for (size_t i = 0; i < config->tensor_count; i++)
        TRY(ctx, check_order(ctx, code, "tensors", i, config->tensors[i].name,
                             i ? config->tensors[i - 1].name : NULL));
    for (size_t i = 0; i < config->entry_count; i++)
        TRY(ctx, check_order(ctx, code, "entries", i, config->entries[i].name,
                             i ? config->entries[i - 1].name : NULL));
    uint64_t total = 0, size = 0;
    for (size_t i = 0; i < config->tensor_count; i++) {
        const tsr_config_tensor *tensor = &config->tensors[i];
        checker p = {ctx, code, "tensor", tensor->name};
        TRY(ctx, check_tensor(&p, config, i));
        EXPECT(&p,
               tsr_shape_size(&tensor->shape, tensor->dtype, &size) && (total += size) <= INT64_MAX,
               "expected less than 2^63 bytes up to here, got more");
    }
    TRY(ctx, check_streams(ctx, config, code));
    for (size_t i = 0; i < config->entry_count; i++) {
        const checker p = {ctx, code, "entry", config->entries[i].name};
        TRY(ctx, check_entry(&p, config, i));
        TRY(ctx, check_copy(&p, config, i));
    }
    TRY(ctx, check_identity(ctx, config, code));
    return check_inputs(ctx, config, code);
}
