/* SPDX-License-Identifier: Apache-2.0
 *
 * Config <-> canonical JSON. Decoding is lenient while it reads and exact at the end: what was read
 * is verified, written again, and compared with the bytes that came in. So spelling, order and
 * unknown members need no code of their own.
 */
#include "manifests/config.h"
#include "manifests/hexfloat.h"
#include "manifests/json_write.h"
#include "runtime/base/json.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

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
    tsr_buffer_text(out, "}");
}

static void write_entry(tsr_buffer *out, const tsr_config_entry *entry) {
    tsr_buffer_text(out, "{");
    tsr_json_write_entry_head(out, entry);
    tsr_buffer_printf(out, ",\"rowsIndependent\":%s", entry->rows_independent ? "true" : "false");
    tsr_json_write_ports(out, "inputs", entry->inputs, entry->input_count, true);
    tsr_json_write_ports(out, "outputs", entry->outputs, entry->output_count, false);
    tsr_buffer_text(out, "}");
}

static void write_config(tsr_buffer *out, const tsr_config *config) {
    tsr_buffer_printf(out, "{\"formatVersion\":\"%u.%u\",\"required\":[],\"optional\":[],\"name\":",
                      config->version_major, config->version_minor);
    tsr_buffer_json_string(out, config->name);
    tsr_buffer_text(out, ",\"producer\":");
    tsr_buffer_json_string(out, config->producer);
    tsr_buffer_text(out, ",\"numerics\":");
    tsr_buffer_json_string(out, config->numerics);
    tsr_buffer_printf(out, ",\"virtualRanks\":%llu,\"tensors\":[",
                      (unsigned long long)config->virtual_ranks);
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

static const tsr_json_options encode_options = {.subject = "config", .code = TSR_COMPILE};

tsr_result tsr_config_encode(tsr_ctx *ctx, const tsr_config *config, tsr_arena *arena,
                             char **out_json, size_t *out_size_bytes) {
    tsr_result result = TSR_SUCCESS;
    tsr_buffer buffer = {0};
    cJSON *root = NULL;
    if (config->version_major != TSR_CONFIG_VERSION_MAJOR ||
        config->version_minor != TSR_CONFIG_VERSION_MINOR)
        FAIL(ctx, TSR_VERSION, "config: cannot write format version %u.%u; expected %d.%d",
             config->version_major, config->version_minor, TSR_CONFIG_VERSION_MAJOR,
             TSR_CONFIG_VERSION_MINOR);
    TRY(ctx, tsr_config_verify(ctx, config, TSR_COMPILE));
    write_config(&buffer, config);
    if (!buffer.failed && buffer.size_bytes > TSR_CONFIG_BYTES_MAX)
        FAIL_GOTO(ctx, result, TSR_COMPILE, "config: expected at most %d bytes, got %zu",
                  TSR_CONFIG_BYTES_MAX, buffer.size_bytes);
    /* What is written can be read: the limits of JSON hold too. */
    if (!buffer.failed)
        TRY_GOTO(ctx, result,
                 tsr_json_parse(ctx, buffer.bytes, buffer.size_bytes, &encode_options, &root));
    TRY_GOTO(ctx, result, tsr_json_take(ctx, &buffer, "config", arena, out_json, out_size_bytes));
done:
    tsr_json_destroy(root);
    tsr_buffer_finish(&buffer);
    return result;
}

/* ---- reading ---- */

typedef struct reader {
    tsr_ctx *ctx;
    tsr_arena *arena;
    tsr_json_options options; /* subject: the place being read */
    char subject[64];
} reader;

__attribute__((format(printf, 2, 3))) static void at(reader *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(r->subject, sizeof r->subject, format, args);
    va_end(args);
    r->options = (tsr_json_options){.subject = r->subject, .code = TSR_CORRUPT};
}

#define READ_FAIL(r, key, wanted, got)                                                             \
    FAIL((r)->ctx, TSR_CORRUPT, "%s: %s: expected %s, got '%s'", (r)->subject, key, wanted,        \
         printable(got))

static const char *printable(const char *text) {
    return tsr_text_valid(text, TSR_NAME_MAX) ? text : "?";
}

static TSR_RESULT read_text(reader *r, const cJSON *object, const char *key, const char **out) {
    const char *text;
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, key, &r->options, &text));
    if (!tsr_name_valid(text))
        FAIL(r->ctx, TSR_CORRUPT,
             "%s: %s: expected 1 ... %d bytes of printable UTF-8, got %zu bytes", r->subject, key,
             TSR_NAME_MAX, strlen(text));
    *out = tsr_arena_strdup(r->arena, text);
    if (!*out) FAIL(r->ctx, TSR_MEMORY, "no memory to read %s", r->subject);
    return TSR_SUCCESS;
}

static TSR_RESULT read_type(reader *r, const cJSON *object, tsr_dtype *out_dtype,
                            tsr_shape *out_shape) {
    const char *text;
    const cJSON *dims, *dim;
    size_t rank;
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, "dtype", &r->options, &text));
    *out_dtype = tsr_dtype_from_name(text);
    if (!*out_dtype) READ_FAIL(r, "dtype", "a known dtype", text);
    TRY(r->ctx, tsr_json_get_array(r->ctx, object, "shape", &r->options, &dims, &rank));
    if (rank > TSR_RANK_MAX)
        FAIL(r->ctx, TSR_CORRUPT, "%s: shape: expected rank 0 ... %d, got %zu", r->subject,
             TSR_RANK_MAX, rank);
    *out_shape = (tsr_shape){0};
    cJSON_ArrayForEach(dim, dims) {
        if (!cJSON_IsNumber(dim))
            FAIL(r->ctx, TSR_CORRUPT, "%s: shape: expected integers, got another type", r->subject);
        out_shape->dims[out_shape->rank++] = (uint64_t)dim->valuedouble; /* 0 … 2^53, scanned */
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_double(reader *r, const cJSON *object, const char *key, double *out) {
    const char *text;
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, key, &r->options, &text));
    if (!tsr_hexfloat_parse(text, out)) READ_FAIL(r, key, "a number as in \"0x1.8p+1\"", text);
    return TSR_SUCCESS;
}

static TSR_RESULT read_init(reader *r, const cJSON *object, tsr_config_tensor *tensor) {
    const cJSON *init;
    const char *text;
    uint64_t stream = 0;
    TRY(r->ctx, tsr_json_get_object(r->ctx, object, "init", &r->options, &init));
    TRY(r->ctx, tsr_json_get_string(r->ctx, init, "kind", &r->options, &text));
    if (!tsr_init_kind_parse(text, &tensor->init))
        READ_FAIL(r, "init", "data, constant, uniform or normal", text);
    if (tensor->init == TSR_INIT_DATA) return TSR_SUCCESS;
    TRY(r->ctx, read_double(r, init, "a", &tensor->init_a));
    if (tensor->init == TSR_INIT_CONSTANT) return TSR_SUCCESS;
    TRY(r->ctx, read_double(r, init, "b", &tensor->init_b));
    TRY(r->ctx, tsr_json_get_u64(r->ctx, init, "stream", &r->options, &stream));
    if (stream > UINT32_MAX)
        FAIL(r->ctx, TSR_CORRUPT, "%s: stream: expected at most %u, got %llu", r->subject,
             UINT32_MAX, (unsigned long long)stream);
    tensor->init_stream = (uint32_t)stream;
    return TSR_SUCCESS;
}

static TSR_RESULT read_tensor(reader *r, const cJSON *object, tsr_config_tensor *tensor) {
    const char *role;
    TRY(r->ctx, read_text(r, object, "name", &tensor->name));
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, "role", &r->options, &role));
    if (!tsr_tensor_role_parse(role, &tensor->role))
        READ_FAIL(r, "role", "param, state or constant", role);
    if (tensor->role == TSR_ROLE_STATE) {
        TRY(r->ctx, read_text(r, object, "of", &tensor->of));
        TRY(r->ctx, read_text(r, object, "kind", &tensor->kind));
    }
    TRY(r->ctx, read_type(r, object, &tensor->dtype, &tensor->shape));
    return read_init(r, object, tensor);
}

static TSR_RESULT read_port(reader *r, const cJSON *object, bool input, tsr_config_port *port) {
    const char *source;
    TRY(r->ctx, read_text(r, object, "name", &port->name));
    TRY(r->ctx, read_type(r, object, &port->dtype, &port->shape));
    port->source = TSR_PORT_ARGUMENT;
    if (!input) return TSR_SUCCESS;
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, "source", &r->options, &source));
    if (!tsr_port_source_parse(source, &port->source))
        READ_FAIL(r, "source", "argument, data or step", source);
    return TSR_SUCCESS;
}

/* An array of at most `count_max` items of `size` bytes, not yet read. */
static TSR_RESULT read_table(reader *r, const cJSON *object, const char *key, size_t count_max,
                             size_t size, const cJSON **out_array, size_t *out_count,
                             void *out_items) {
    TRY(r->ctx, tsr_json_get_array(r->ctx, object, key, &r->options, out_array, out_count));
    if (*out_count > count_max)
        FAIL(r->ctx, TSR_CORRUPT, "%s: %s: expected at most %zu, got %zu", r->subject, key,
             count_max, *out_count);
    void *items = tsr_arena_alloc(r->arena, *out_count, size, 16);
    if (!items) FAIL(r->ctx, TSR_MEMORY, "no memory for %zu %s", *out_count, key);
    memcpy(out_items, &items, sizeof items);
    return TSR_SUCCESS;
}

static TSR_RESULT read_ports(reader *r, const cJSON *object, size_t entry, bool input,
                             tsr_config_port **out_ports, size_t *out_count) {
    const char *key = input ? "inputs" : "outputs";
    const cJSON *array, *item;
    size_t index = 0;
    at(r, "config: entries[%zu]", entry);
    TRY(r->ctx, read_table(r, object, key, TSR_CONFIG_PORTS_MAX, sizeof **out_ports, &array,
                           out_count, out_ports));
    cJSON_ArrayForEach(item, array) {
        at(r, "config: entries[%zu].%s[%zu]", entry, key, index);
        TRY(r->ctx, read_port(r, item, input, &(*out_ports)[index++]));
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_entry(reader *r, const cJSON *object, size_t index,
                             tsr_config_entry *entry) {
    const char *kind;
    at(r, "config: entries[%zu]", index);
    TRY(r->ctx, read_text(r, object, "name", &entry->name));
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, "kind", &r->options, &kind));
    if (!tsr_entry_kind_parse(kind, &entry->kind))
        READ_FAIL(r, "kind", "infer, train or eval", kind);
    TRY(r->ctx, tsr_json_get_u64(r->ctx, object, "batch", &r->options, &entry->batch));
    const cJSON *rows = tsr_json_find(object, "rowsIndependent");
    if (!cJSON_IsBool(rows))
        FAIL(r->ctx, TSR_CORRUPT, "%s: member 'rowsIndependent': expected a boolean, got %s",
             r->subject, rows ? "another type" : "nothing");
    entry->rows_independent = cJSON_IsTrue(rows);
    TRY(r->ctx, read_ports(r, object, index, true, &entry->inputs, &entry->input_count));
    TRY(r->ctx, read_ports(r, object, index, false, &entry->outputs, &entry->output_count));
    return TSR_SUCCESS;
}

/* "1.0": decimal, no leading zeros. */
static bool parse_version(const char *text, uint32_t *out_major, uint32_t *out_minor) {
    uint32_t parts[2] = {0};
    for (int i = 0; i < 2; i++) {
        const char *digits = text;
        for (; *text >= '0' && *text <= '9' && text - digits < 6; text++)
            parts[i] = parts[i] * 10 + (uint32_t)(*text - '0');
        if (text == digits || (digits[0] == '0' && text - digits > 1)) return false;
        if (*text != (i ? '\0' : '.')) return false;
        text++;
    }
    *out_major = parts[0];
    *out_minor = parts[1];
    return true;
}

/* Names in byte order. No name is known to version 1.0: a required one is a newer Tessera's. */
static TSR_RESULT read_features(reader *r, const cJSON *root, const char *key, bool required,
                                size_t *out_count) {
    const cJSON *array, *item;
    const char *previous = NULL;
    TRY(r->ctx, tsr_json_get_array(r->ctx, root, key, &r->options, &array, out_count));
    cJSON_ArrayForEach(item, array) {
        if (!cJSON_IsString(item) || !tsr_name_valid(item->valuestring))
            FAIL(r->ctx, TSR_CORRUPT, "config: %s: expected names, got another value", key);
        if (previous && strcmp(previous, item->valuestring) >= 0)
            FAIL(r->ctx, TSR_CORRUPT,
                 "config: %s: expected a name after '%s' in byte order, got '%s'", key, previous,
                 item->valuestring);
        previous = item->valuestring;
        if (required)
            FAIL(r->ctx, TSR_VERSION,
                 "config: required: '%s' needs a newer Tessera; this is " TSR_VERSION_TEXT,
                 previous);
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_version(reader *r, const cJSON *root, tsr_config *config) {
    const char *text;
    TRY(r->ctx, tsr_json_get_string(r->ctx, root, "formatVersion", &r->options, &text));
    if (!parse_version(text, &config->version_major, &config->version_minor) ||
        config->version_major < 1)
        READ_FAIL(r, "formatVersion", "MAJOR.MINOR from 1.0 on", text);
    if (config->version_major > TSR_CONFIG_VERSION_MAJOR)
        FAIL(r->ctx, TSR_VERSION,
             "config: formatVersion: expected %d.x, got %s; it needs a newer Tessera, this "
             "is " TSR_VERSION_TEXT,
             TSR_CONFIG_VERSION_MAJOR, text);
    return TSR_SUCCESS;
}

/* *out_exact: nothing unknown may be in it, so its spelling is the canonical one. */
static TSR_RESULT read_config(reader *r, const cJSON *root, tsr_config *config, bool *out_exact) {
    const cJSON *tensors, *entries, *item;
    size_t required, optional, index = 0;
    at(r, "config");
    TRY(r->ctx, read_version(r, root, config));
    TRY(r->ctx, read_features(r, root, "required", true, &required));
    TRY(r->ctx, read_features(r, root, "optional", false, &optional));
    *out_exact = config->version_minor <= TSR_CONFIG_VERSION_MINOR && !optional;
    TRY(r->ctx, read_text(r, root, "name", &config->name));
    TRY(r->ctx, read_text(r, root, "producer", &config->producer));
    TRY(r->ctx, read_text(r, root, "numerics", &config->numerics));
    TRY(r->ctx,
        tsr_json_get_u64(r->ctx, root, "virtualRanks", &r->options, &config->virtual_ranks));
    TRY(r->ctx, read_table(r, root, "tensors", TSR_CONFIG_TENSORS_MAX, sizeof *config->tensors,
                           &tensors, &config->tensor_count, &config->tensors));
    TRY(r->ctx, read_table(r, root, "entries", TSR_CONFIG_ENTRIES_MAX, sizeof *config->entries,
                           &entries, &config->entry_count, &config->entries));
    cJSON_ArrayForEach(item, tensors) {
        at(r, "config: tensors[%zu]", index);
        TRY(r->ctx, read_tensor(r, item, &config->tensors[index++]));
    }
    index = 0;
    cJSON_ArrayForEach(item, entries) {
        TRY(r->ctx, read_entry(r, item, index, &config->entries[index]));
        index++;
    }
    return TSR_SUCCESS;
}

static TSR_RESULT check_canonical(tsr_ctx *ctx, const tsr_config *config, const char *json,
                                  size_t size_bytes) {
    tsr_result result = TSR_SUCCESS;
    tsr_buffer again = {0};
    size_t i = 0;
    write_config(&again, config);
    if (again.failed)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to verify %zu bytes of config", size_bytes);
    while (i < size_bytes && i < again.size_bytes && json[i] == again.bytes[i]) i++;
    if (i < size_bytes || i < again.size_bytes)
        FAIL_GOTO(ctx, result, TSR_CORRUPT,
                  "config: offset %zu of %zu: expected the canonical byte 0x%02x, got 0x%02x", i,
                  size_bytes, i < again.size_bytes ? (unsigned char)again.bytes[i] : 0u,
                  i < size_bytes ? (unsigned char)json[i] : 0u);
done:
    tsr_buffer_finish(&again);
    return result;
}

tsr_result tsr_config_decode(tsr_ctx *ctx, const char *json, size_t size_bytes, tsr_arena *arena,
                             tsr_config *out_config) {
    tsr_result result = TSR_SUCCESS;
    reader r = {.ctx = ctx, .arena = arena};
    tsr_config config = {0};
    cJSON *root = NULL;
    bool exact = true;
    if (size_bytes > TSR_CONFIG_BYTES_MAX)
        FAIL(ctx, TSR_CORRUPT, "config: expected at most %d bytes, got %zu", TSR_CONFIG_BYTES_MAX,
             size_bytes);
    at(&r, "config");
    TRY_GOTO(ctx, result, tsr_json_parse(ctx, json, size_bytes, &r.options, &root));
    TRY_GOTO(ctx, result, read_config(&r, root, &config, &exact));
    TRY_GOTO(ctx, result, tsr_config_verify(ctx, &config, TSR_CORRUPT));
    if (exact) TRY_GOTO(ctx, result, check_canonical(ctx, &config, json, size_bytes));
    *out_config = config;
done:
    tsr_json_destroy(root);
    return result;
}
