/* SPDX-License-Identifier: Apache-2.0
 *
 * Config <-> canonical JSON. Decoding is lenient while it reads and exact at the end: the decoded
 * struct is verified, encoded again, and compared with the input bytes. Spelling, order and unknown
 * members therefore need no separate code.
 */
#include "manifests/config.h"
#include "manifests/hexfloat.h"
#include "manifests/json_read.h"
#include "manifests/json_write.h"
#include "runtime/base/array.h"
#include "runtime/base/io/identity_json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Optional features, in the order in which they are listed: entries list the effects that they may
 * have; entries name the outputs that may be infinite; parameters name what their optimizer was
 * told. */
#define FEATURE_EFFECTS "effects"
#define FEATURE_INFINITE "infinite-outputs"
#define FEATURE_GROUPS "parameter-groups"
/* Required features: inputs are hyper-parameters, which the runtime fills; an entry has an open
 * dim. */
#define FEATURE_HYPERPARAMETERS "hyperparameter-inputs"
#define FEATURE_OPEN "open-dims"

/* ---- writing ---- */

static void write_init(tsr_buffer *out, const tsr_config_tensor *tensor) {
    char text[TSR_HEXFLOAT_TEXT_MAX];
    tsr_buffer_printf(out, "{\"kind\":\"%s\"", tsr_init_kind_name(tensor->init));
    if (tensor->init != TSR_INIT_DATA)
        tsr_buffer_printf(out, ",\"a\":\"%s\"", tsr_hexfloat_format(tensor->init_a, text));
    if (tensor->init >= TSR_INIT_UNIFORM)
        tsr_buffer_printf(out, ",\"b\":\"%s\",\"stream\":%u",
                          tsr_hexfloat_format(tensor->init_b, text), tensor->init_stream);
    tsr_buffer_text(out, "}");
}

static bool has_group(const tsr_config_tensor *tensor) {
    return tensor->frozen || tensor->no_decay || tensor->lr_factor != 0;
}

static bool has_groups(const tsr_config *config) {
    for (size_t i = 0; i < config->tensor_count; i++)
        if (has_group(&config->tensors[i])) return true;
    return false;
}

/* The member is omitted if nothing was told. */
static void write_group(tsr_buffer *out, const tsr_config_tensor *tensor) {
    char text[TSR_HEXFLOAT_TEXT_MAX];
    if (!has_group(tensor)) return;
    tsr_buffer_text(out, ",\"group\":{");
    if (tensor->frozen) tsr_buffer_text(out, "\"frozen\":true");
    if (tensor->no_decay) tsr_buffer_text(out, "\"decay\":false");
    if (tensor->lr_factor != 0)
        tsr_buffer_printf(out, "%s\"lrFactor\":\"%s\"", tensor->no_decay ? "," : "",
                          tsr_hexfloat_format(tensor->lr_factor, text));
    tsr_buffer_text(out, "}");
}

static void write_tensor(tsr_buffer *out, const tsr_config_tensor *tensor) {
    tsr_buffer_text(out, "{\"name\":");
    tsr_buffer_json_string(out, tensor->name);
    tsr_buffer_printf(out, ",\"role\":\"%s\"", tsr_tensor_role_name(tensor->role));
    if (tensor->role == TSR_ROLE_STATE) {
        tsr_buffer_text(out, ",\"of\":");
        tsr_buffer_json_string(out, tensor->of);
        tsr_buffer_text(out, ",\"kind\":");
        tsr_buffer_json_string(out, tensor->kind);
    }
    tsr_json_write_type(out, tensor->dtype, &tensor->shape);
    tsr_buffer_text(out, ",\"init\":");
    write_init(out, tensor);
    write_group(out, tensor);
    tsr_buffer_text(out, "}");
}

/* Writes the names of outputs; the member is omitted if the list is empty. */
static void write_infinite(tsr_buffer *out, const tsr_config_entry *entry) {
    bool first = true;
    for (size_t i = 0; i < entry->output_count; i++) {
        if (!entry->outputs[i].may_be_infinite) continue;
        tsr_buffer_text(out, first ? ",\"infinite\":[" : ",");
        tsr_buffer_json_string(out, entry->outputs[i].name);
        first = false;
    }
    if (!first) tsr_buffer_text(out, "]");
}

static bool has_infinite(const tsr_config *config) {
    for (size_t i = 0; i < config->entry_count; i++)
        for (size_t k = 0; k < config->entries[i].output_count; k++)
            if (config->entries[i].outputs[k].may_be_infinite) return true;
    return false;
}

static bool has_hyperparameters(const tsr_config *config) {
    for (size_t i = 0; i < config->entry_count; i++)
        for (size_t k = 0; k < config->entries[i].input_count; k++)
            if (config->entries[i].inputs[k].source == TSR_PORT_HYPERPARAMETER) return true;
    return false;
}

static bool has_open(const tsr_config *config) {
    for (size_t i = 0; i < config->entry_count; i++)
        if (config->entries[i].open.name) return true;
    return false;
}

static void write_times(tsr_buffer *out, const char *key, const tsr_config_port *ports,
                        size_t count) {
    tsr_buffer_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < count; i++)
        tsr_buffer_printf(out, "%s%" PRIu64, i ? "," : "", ports[i].dim_times);
    tsr_buffer_text(out, "]");
}

void tsr_config_write_open(tsr_buffer *out, const tsr_config_entry *entry) {
    if (!entry->open.name) return;
    tsr_buffer_text(out, ",\"open\":{\"dim\":");
    tsr_buffer_json_string(out, entry->open.name);
    tsr_buffer_printf(out, ",\"low\":%" PRIu64 ",\"high\":%" PRIu64, entry->open.low,
                      entry->open.high);
    write_times(out, "inputs", entry->inputs, entry->input_count);
    write_times(out, "outputs", entry->outputs, entry->output_count);
    tsr_buffer_text(out, "}");
}

static bool has_effects(const tsr_config *config) {
    for (size_t i = 0; i < config->entry_count; i++)
        if (config->entries[i].states_effects) return true;
    return false;
}

static void write_effects(tsr_buffer *out, const tsr_config_entry *entry) {
    const char *before = "";
    if (!entry->states_effects) return;
    tsr_buffer_text(out, ",\"effects\":[");
    for (size_t i = 0; i < TSR_EFFECT_COUNT; i++) {
        if (!(entry->effects >> i & 1)) continue;
        tsr_buffer_printf(out, "%s\"%s\"", before, tsr_effect_name(i));
        before = ",";
    }
    tsr_buffer_text(out, "]");
}

static void write_entry(tsr_buffer *out, const tsr_config_entry *entry) {
    tsr_buffer_text(out, "{");
    tsr_json_write_entry_head(out, entry);
    tsr_buffer_printf(out, ",\"rowsIndependent\":%s", entry->rows_independent ? "true" : "false");
    tsr_json_write_ports(out, "inputs", entry->inputs, entry->input_count, TSR_JSON_CONFIG_INPUTS);
    tsr_json_write_ports(out, "outputs", entry->outputs, entry->output_count, TSR_JSON_OUTPUTS);
    write_infinite(out, entry);
    tsr_config_write_open(out, entry);
    write_effects(out, entry);
    tsr_buffer_text(out, "}");
}

/* Members of version 1.1. */
static void write_program(tsr_buffer *out, const tsr_config *config) {
    char hex[TSR_DIGEST_HEX + 1];
    if (!tsr_identity_is_known(&config->identity)) return;
    tsr_digest_format(&config->operations, hex);
    tsr_buffer_text(out, ",");
    tsr_identity_write_json(out, &config->identity);
    tsr_buffer_printf(out, ",\"operations\":\"%s\"", hex);
}

static void write_features(tsr_buffer *out, const char *key, const char *const *names,
                           size_t count) {
    const char *before = "";
    tsr_buffer_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        if (names[i]) tsr_buffer_printf(out, "%s\"%s\"", before, names[i]);
        if (names[i]) before = ",";
    }
    tsr_buffer_text(out, "]");
}

static void write_config(tsr_buffer *out, const tsr_config *config) {
    const char *const required[] = {has_hyperparameters(config) ? FEATURE_HYPERPARAMETERS : NULL,
                                    has_open(config) ? FEATURE_OPEN : NULL};
    const char *const optional[] = {has_effects(config) ? FEATURE_EFFECTS : NULL,
                                    has_infinite(config) ? FEATURE_INFINITE : NULL,
                                    has_groups(config) ? FEATURE_GROUPS : NULL};
    tsr_buffer_printf(out, "{\"formatVersion\":\"%u.%d\"", config->version_major,
                      tsr_identity_is_known(&config->identity) ? 1 : 0);
    write_features(out, "required", required, TSR_COUNT(required));
    write_features(out, "optional", optional, TSR_COUNT(optional));
    tsr_buffer_text(out, ",\"name\":");
    tsr_buffer_json_string(out, config->name);
    tsr_buffer_text(out, ",\"producer\":");
    tsr_buffer_json_string(out, config->producer);
    tsr_buffer_text(out, ",\"numerics\":");
    tsr_buffer_json_string(out, config->numerics);
    tsr_buffer_printf(out, ",\"virtualRanks\":%" PRIu64, config->virtual_ranks);
    write_program(out, config);
    tsr_buffer_text(out, ",\"tensors\":[");
    for (size_t i = 0; i < config->tensor_count; i++) {
        if (i) tsr_buffer_text(out, ",");
        write_tensor(out, &config->tensors[i]);
    }
    tsr_buffer_text(out, "],\"entries\":[");
    for (size_t i = 0; i < config->entry_count; i++) {
        if (i) tsr_buffer_text(out, ",");
        write_entry(out, &config->entries[i]);
    }
    tsr_buffer_text(out, "]}");
}

#define ADVICE "; give them shorter names, or stack tensors of one shape into one"

static const tsr_json_options encode_options = {.subject = "config", .code = TSR_COMPILE};

tsr_result tsr_config_encode(tsr_ctx *ctx, const tsr_config *config, tsr_arena *arena,
                             char **out_json, size_t *out_size_bytes) {
    tsr_result result = TSR_SUCCESS;
    tsr_buffer buffer = {0};
    if (config->version_major != TSR_CONFIG_VERSION_MAJOR ||
        config->version_minor > TSR_CONFIG_VERSION_MINOR)
        FAIL(ctx, TSR_VERSION, "config: cannot write format version %u.%u; expected at most %d.%d",
             config->version_major, config->version_minor, TSR_CONFIG_VERSION_MAJOR,
             TSR_CONFIG_VERSION_MINOR);
    TRY(ctx, tsr_config_verify(ctx, config, TSR_COMPILE));
    write_config(&buffer, config);
    if (!buffer.failed && buffer.size_bytes > TSR_CONFIG_BYTES_MAX)
        FAIL_GOTO(ctx, result, TSR_COMPILE,
                  "config: expected at most %d bytes, got %zu for %zu tensors" ADVICE,
                  TSR_CONFIG_BYTES_MAX, buffer.size_bytes, config->tensor_count);
    /* The output must be readable, so the limits of JSON apply to it too. */
    if (!buffer.failed) {
        result = tsr_json_scan(ctx, buffer.bytes, buffer.size_bytes, &encode_options, NULL, NULL);
        if (result.code) {
            result = tsr_error_prefix(ctx, result, "%zu tensors" ADVICE, config->tensor_count);
            goto done;
        }
    }
    TRY_GOTO(ctx, result, tsr_json_take(ctx, &buffer, "config", arena, out_json, out_size_bytes));
done:
    tsr_buffer_finish(&buffer);
    return result;
}

/* ---- reading ---- */

static TSR_RESULT read_init(tsr_json_reader *r, const cJSON *object, tsr_config_tensor *tensor) {
    const cJSON *init;
    const char *text;
    uint64_t stream = 0;
    TRY(r->ctx, tsr_json_get_object(r->ctx, object, "init", &r->options, &init));
    TRY(r->ctx, tsr_json_get_string(r->ctx, init, "kind", &r->options, &text));
    if (!tsr_init_kind_parse(text, &tensor->init))
        TSR_JSON_READ_FAIL(r, "init", "data, constant, uniform or normal", text);
    if (tensor->init == TSR_INIT_DATA) return TSR_SUCCESS;
    TRY(r->ctx, tsr_json_read_double(r, init, "a", &tensor->init_a));
    if (tensor->init == TSR_INIT_CONSTANT) return TSR_SUCCESS;
    TRY(r->ctx, tsr_json_read_double(r, init, "b", &tensor->init_b));
    TRY(r->ctx, tsr_json_get_u64(r->ctx, init, "stream", &r->options, &stream));
    if (stream > UINT32_MAX)
        FAIL(r->ctx, TSR_CORRUPT, "%s: stream: expected at most %u, got %" PRIu64, r->subject,
             UINT32_MAX, stream);
    tensor->init_stream = (uint32_t)stream;
    return TSR_SUCCESS;
}

/* The member is valid only if the feature is listed, as `infinite` is. */
static TSR_RESULT read_group(tsr_json_reader *r, const cJSON *object, tsr_config_tensor *tensor) {
    const cJSON *group;
    if (!r->has_groups || !tsr_json_find(object, "group")) return TSR_SUCCESS;
    TRY(r->ctx, tsr_json_get_object(r->ctx, object, "group", &r->options, &group));
    const cJSON *frozen = tsr_json_find(group, "frozen"), *decay = tsr_json_find(group, "decay");
    tensor->frozen = frozen && cJSON_IsTrue(frozen);
    tensor->no_decay = decay && cJSON_IsFalse(decay);
    if (!tsr_json_find(group, "lrFactor")) return TSR_SUCCESS;
    return tsr_json_read_double(r, group, "lrFactor", &tensor->lr_factor);
}

static TSR_RESULT read_tensor(tsr_json_reader *r, const cJSON *object, tsr_config_tensor *tensor) {
    const char *role;
    TRY(r->ctx, tsr_json_read_name(r, object, "name", &tensor->name));
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, "role", &r->options, &role));
    if (!tsr_tensor_role_parse(role, &tensor->role))
        TSR_JSON_READ_FAIL(r, "role", "param, state or constant", role);
    if (tensor->role == TSR_ROLE_STATE) {
        TRY(r->ctx, tsr_json_read_name(r, object, "of", &tensor->of));
        TRY(r->ctx, tsr_json_read_name(r, object, "kind", &tensor->kind));
    }
    TRY(r->ctx, tsr_json_read_type(r, object, &tensor->dtype, &tensor->shape));
    TRY(r->ctx, read_group(r, object, tensor));
    return read_init(r, object, tensor);
}

/* The member is valid only if the feature is listed; otherwise the comparison with the canonical
 * bytes refuses it. */
static TSR_RESULT read_infinite(tsr_json_reader *r, const cJSON *object, tsr_config_entry *entry) {
    const cJSON *array, *item;
    size_t count;
    if (!r->has_infinite || !tsr_json_find(object, "infinite")) return TSR_SUCCESS;
    TRY(r->ctx, tsr_json_get_array(r->ctx, object, "infinite", &r->options, &array, &count));
    cJSON_ArrayForEach(item, array) {
        const char *name = cJSON_IsString(item) ? item->valuestring : "";
        size_t k = 0;
        while (k < entry->output_count && strcmp(entry->outputs[k].name, name) != 0) k++;
        if (k == entry->output_count)
            FAIL(r->ctx, TSR_CORRUPT, "%s: infinite: expected names of outputs, got '%s'",
                 r->subject, name);
        entry->outputs[k].may_be_infinite = true;
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_times(tsr_json_reader *r, const cJSON *open, const char *key,
                             tsr_config_port *ports, size_t count) {
    const cJSON *array, *item;
    size_t times, i = 0;
    TRY(r->ctx, tsr_json_get_array(r->ctx, open, key, &r->options, &array, &times));
    if (times != count)
        FAIL(r->ctx, TSR_CORRUPT, "%s: open: expected %zu numbers for the %s, got %zu", r->subject,
             count, key, times);
    cJSON_ArrayForEach(item, array) {
        double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(value >= 0 && value <= 0x1p53) || value != (double)(uint64_t)value)
            FAIL(r->ctx, TSR_CORRUPT, "%s: open: expected integers of 0 ... 2^53 for the %s",
                 r->subject, key);
        ports[i++].dim_times = (uint64_t)value;
    }
    return TSR_SUCCESS;
}

/* The member is valid only if the feature is listed, as `infinite` is. */
static TSR_RESULT read_open(tsr_json_reader *r, const cJSON *object, tsr_config_entry *entry) {
    const cJSON *open;
    if (!r->has_open || !tsr_json_find(object, "open")) return TSR_SUCCESS;
    TRY(r->ctx, tsr_json_get_object(r->ctx, object, "open", &r->options, &open));
    TRY(r->ctx, tsr_json_read_name(r, open, "dim", &entry->open.name));
    TRY(r->ctx, tsr_json_get_u64(r->ctx, open, "low", &r->options, &entry->open.low));
    TRY(r->ctx, tsr_json_get_u64(r->ctx, open, "high", &r->options, &entry->open.high));
    TRY(r->ctx, read_times(r, open, "inputs", entry->inputs, entry->input_count));
    return read_times(r, open, "outputs", entry->outputs, entry->output_count);
}

/* The member is valid only if the feature is listed, as `infinite` is. */
static TSR_RESULT read_effects(tsr_json_reader *r, const cJSON *object, tsr_config_entry *entry) {
    const cJSON *array, *item;
    size_t count;
    tsr_effect effect;
    if (!r->has_effects || !tsr_json_find(object, "effects")) return TSR_SUCCESS;
    TRY(r->ctx, tsr_json_get_array(r->ctx, object, "effects", &r->options, &array, &count));
    entry->states_effects = true;
    cJSON_ArrayForEach(item, array) {
        const char *name = cJSON_IsString(item) ? item->valuestring : "";
        if (!tsr_effect_parse(name, &effect))
            TSR_JSON_READ_FAIL(r, "effects", "random, io, memory, state, movement or collective",
                               name);
        entry->effects |= (uint32_t)effect;
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_entry(tsr_json_reader *r, const cJSON *object, size_t index,
                             tsr_config_entry *entry) {
    char subject[64];
    snprintf(subject, sizeof subject, "config: entries[%zu]", index);
    TRY(r->ctx, tsr_json_read_entry(r, object, subject, entry));
    tsr_json_at(r, "%s", subject);
    const cJSON *rows = tsr_json_find(object, "rowsIndependent");
    if (!cJSON_IsBool(rows))
        FAIL(r->ctx, TSR_CORRUPT, "%s: member 'rowsIndependent': expected a boolean, got %s",
             r->subject, rows ? "another type" : "nothing");
    entry->rows_independent = cJSON_IsTrue(rows);
    TRY(r->ctx, read_infinite(r, object, entry));
    TRY(r->ctx, read_effects(r, object, entry));
    return read_open(r, object, entry);
}

/* Names are in byte order. A required name that is not known belongs to a newer Tessera. */
static TSR_RESULT read_features(tsr_json_reader *r, const cJSON *root, const char *key,
                                bool required, size_t *out_unknown_count) {
    const cJSON *array, *item;
    const char *previous = NULL;
    TRY(r->ctx, tsr_json_get_array(r->ctx, root, key, &r->options, &array, out_unknown_count));
    cJSON_ArrayForEach(item, array) {
        if (!cJSON_IsString(item) || !tsr_name_valid(item->valuestring))
            FAIL(r->ctx, TSR_CORRUPT, "config: %s: expected names, got another value", key);
        if (previous && strcmp(previous, item->valuestring) >= 0)
            FAIL(r->ctx, TSR_CORRUPT,
                 "config: %s: expected a name after '%s' in byte order, got '%s'", key, previous,
                 item->valuestring);
        previous = item->valuestring;
        bool numbers = required && strcmp(previous, FEATURE_HYPERPARAMETERS) == 0;
        bool open = required && strcmp(previous, FEATURE_OPEN) == 0;
        r->has_hyperparameters |= numbers;
        r->has_open |= open;
        if (required && !numbers && !open)
            FAIL(r->ctx, TSR_VERSION,
                 "config: required: '%s' needs a newer Tessera; this is " TSR_VERSION_TEXT,
                 previous);
        bool effects = strcmp(previous, FEATURE_EFFECTS) == 0;
        bool infinite = strcmp(previous, FEATURE_INFINITE) == 0;
        bool groups = strcmp(previous, FEATURE_GROUPS) == 0;
        r->has_effects |= effects;
        r->has_infinite |= infinite;
        r->has_groups |= groups;
        *out_unknown_count -= effects || infinite || groups || numbers || open;
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_version(tsr_json_reader *r, const cJSON *root, tsr_config *config) {
    const char *text;
    TRY(r->ctx, tsr_json_get_string(r->ctx, root, "formatVersion", &r->options, &text));
    if (!tsr_json_parse_version(text, &config->version_major, &config->version_minor) ||
        config->version_major < 1)
        TSR_JSON_READ_FAIL(r, "formatVersion", "MAJOR.MINOR from 1.0 on", text);
    if (config->version_major > TSR_CONFIG_VERSION_MAJOR)
        FAIL(r->ctx, TSR_VERSION,
             "config: formatVersion: expected %d.x, got %s; it needs a newer Tessera, this "
             "is " TSR_VERSION_TEXT,
             TSR_CONFIG_VERSION_MAJOR, text);
    return TSR_SUCCESS;
}

/* In a file of version 1.0 such members would belong to somebody else. */
static TSR_RESULT read_program(tsr_json_reader *r, const cJSON *root, tsr_config *config) {
    static const tsr_digest none;
    const char *hex = NULL;
    if (config->version_minor < 1 || !tsr_json_find(root, "program")) return TSR_SUCCESS;
    TRY(r->ctx, tsr_identity_read_json(r->ctx, root, &r->options, r->arena, &config->identity));
    TRY(r->ctx, tsr_json_get_string(r->ctx, root, "operations", &r->options, &hex));
    if (!tsr_digest_parse(hex, strlen(hex), &config->operations) ||
        tsr_digest_equal(&config->operations, &none))
        TSR_JSON_READ_FAIL(r, "operations", "a digest of 64 hexadecimal digits, not all 0", hex);
    return TSR_SUCCESS;
}

/* *out_exact: nothing unknown is allowed, so the bytes must be canonical. */
static TSR_RESULT read_config(tsr_json_reader *r, const cJSON *root, tsr_config *config,
                              bool *out_exact) {
    const cJSON *tensors, *entries, *item;
    size_t required, optional, index = 0;
    tsr_json_at(r, "config");
    TRY(r->ctx, read_version(r, root, config));
    TRY(r->ctx, read_features(r, root, "required", true, &required));
    TRY(r->ctx, read_features(r, root, "optional", false, &optional));
    *out_exact = config->version_minor <= TSR_CONFIG_VERSION_MINOR && !optional;
    TRY(r->ctx, tsr_json_read_name(r, root, "name", &config->name));
    TRY(r->ctx, tsr_json_read_name(r, root, "producer", &config->producer));
    TRY(r->ctx, tsr_json_read_name(r, root, "numerics", &config->numerics));
    TRY(r->ctx,
        tsr_json_get_u64(r->ctx, root, "virtualRanks", &r->options, &config->virtual_ranks));
    TRY(r->ctx, read_program(r, root, config));
    TRY(r->ctx,
        tsr_json_read_table(r, root, "tensors", TSR_CONFIG_TENSORS_MAX, sizeof *config->tensors,
                            &tensors, &config->tensor_count, &config->tensors));
    TRY(r->ctx,
        tsr_json_read_table(r, root, "entries", TSR_CONFIG_ENTRIES_MAX, sizeof *config->entries,
                            &entries, &config->entry_count, &config->entries));
    cJSON_ArrayForEach(item, tensors) {
        tsr_json_at(r, "config: tensors[%zu]", index);
        TRY(r->ctx, read_tensor(r, item, &config->tensors[index++]));
    }
    index = 0;
    cJSON_ArrayForEach(item, entries) {
        TRY(r->ctx, read_entry(r, item, index, &config->entries[index]));
        index++;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_config_decode(tsr_ctx *ctx, const char *json, size_t size_bytes, tsr_arena *arena,
                             tsr_config *out_config) {
    tsr_result result = TSR_SUCCESS;
    tsr_json_reader r = {.ctx = ctx, .arena = arena};
    tsr_config config = {0};
    cJSON *root = NULL;
    tsr_buffer again = {0};
    bool exact = true;
    if (size_bytes > TSR_CONFIG_BYTES_MAX)
        FAIL(ctx, TSR_CORRUPT, "config: expected at most %d bytes, got %zu", TSR_CONFIG_BYTES_MAX,
             size_bytes);
    tsr_json_at(&r, "config");
    TRY_GOTO(ctx, result, tsr_json_parse(ctx, json, size_bytes, &r.options, &root));
    TRY_GOTO(ctx, result, read_config(&r, root, &config, &exact));
    TRY_GOTO(ctx, result, tsr_config_verify(ctx, &config, TSR_CORRUPT));
    if (exact) {
        write_config(&again, &config);
        TRY_GOTO(ctx, result, tsr_json_check_canonical(ctx, "config", &again, json, size_bytes));
    }
    *out_config = config;
done:
    tsr_buffer_finish(&again);
    tsr_json_destroy(root);
    return result;
}
