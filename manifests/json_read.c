/* SPDX-License-Identifier: Apache-2.0 */
#include "manifests/json_read.h"

#include "manifests/hexfloat.h"
#include "runtime/base/plural.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

void tsr_json_at(tsr_json_reader *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(r->subject, sizeof r->subject, format, args);
    va_end(args);
    r->options = (tsr_json_options){.subject = r->subject, .code = TSR_CORRUPT};
}

const char *tsr_json_printable(const char *text) {
    return tsr_text_valid(text, TSR_NAME_MAX) ? text : "?";
}

tsr_result tsr_json_read_name(tsr_json_reader *r, const cJSON *object, const char *key,
                              const char **out) {
    const char *text;
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, key, &r->options, &text));
    if (!tsr_name_valid(text))
        FAIL(r->ctx, TSR_CORRUPT,
             "%s: %s: expected 1 ... %d bytes of printable UTF-8, got %zu byte%s", r->subject, key,
             TSR_NAME_MAX, strlen(text), TSR_PLURAL(strlen(text)));
    *out = tsr_arena_strdup(r->arena, text);
    if (!*out) FAIL(r->ctx, TSR_MEMORY, "no memory to read %s", r->subject);
    return TSR_SUCCESS;
}

tsr_result tsr_json_read_type(tsr_json_reader *r, const cJSON *object, tsr_dtype *out_dtype,
                              tsr_shape *out_shape) {
    const char *text;
    const cJSON *dims, *dim;
    size_t rank;
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, "dtype", &r->options, &text));
    *out_dtype = tsr_dtype_from_name(text);
    if (!*out_dtype) TSR_JSON_READ_FAIL(r, "dtype", "a known dtype", text);
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

tsr_result tsr_json_read_double(tsr_json_reader *r, const cJSON *object, const char *key,
                                double *out) {
    const char *text;
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, key, &r->options, &text));
    if (!tsr_hexfloat_parse(text, out))
        TSR_JSON_READ_FAIL(r, key, "a number as in \"0x1.8p+1\"", text);
    return TSR_SUCCESS;
}

static TSR_RESULT read_hyperparameter(tsr_json_reader *r, const cJSON *object,
                                      tsr_config_port *port) {
    tsr_config_hyperparameter *of = TSR_NEW(r->arena, tsr_config_hyperparameter, 1);
    if (!of) FAIL(r->ctx, TSR_MEMORY, "no memory for the inputs of an entry");
    TRY(r->ctx, tsr_json_read_name(r, object, "hyperparameter", &of->name));
    TRY(r->ctx, tsr_json_read_double(r, object, "value", &of->value));
    TRY(r->ctx, tsr_json_read_double(r, object, "least", &of->least));
    TRY(r->ctx, tsr_json_read_double(r, object, "most", &of->most));
    port->hyperparameter = of;
    return TSR_SUCCESS;
}

static TSR_RESULT read_port(tsr_json_reader *r, const cJSON *object, bool input,
                            tsr_config_port *port) {
    const char *source;
    TRY(r->ctx, tsr_json_read_name(r, object, "name", &port->name));
    TRY(r->ctx, tsr_json_read_type(r, object, &port->dtype, &port->shape));
    port->source = TSR_PORT_ARGUMENT;
    if (!input) {
        const cJSON *watched = tsr_json_find(object, "watched");
        if (watched && !cJSON_IsBool(watched))
            FAIL(r->ctx, TSR_CORRUPT, "%s: member 'watched': expected a boolean, got another type",
                 r->subject);
        port->watched = watched && cJSON_IsTrue(watched);
        return TSR_SUCCESS;
    }
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, "source", &r->options, &source));
    bool known = tsr_port_source_parse(source, &port->source);
    bool is_number = known && port->source == TSR_PORT_HYPERPARAMETER;
    if (!known || (is_number && !r->has_hyperparameters))
        TSR_JSON_READ_FAIL(r, "source",
                           r->has_hyperparameters ? "argument, data, step, seed or hyperparameter"
                                                  : "argument, data, step or seed",
                           source);
    return is_number ? read_hyperparameter(r, object, port) : TSR_SUCCESS;
}

/* Allocates an array for at most `count_max` items of `size` bytes, which are not yet read. */
tsr_result tsr_json_read_table(tsr_json_reader *r, const cJSON *object, const char *key,
                               size_t count_max, size_t size, const cJSON **out_array,
                               size_t *out_count, void *out_items) {
    TRY(r->ctx, tsr_json_get_array(r->ctx, object, key, &r->options, out_array, out_count));
    if (*out_count > count_max)
        FAIL(r->ctx, TSR_CORRUPT, "%s: %s: expected at most %zu, got %zu", r->subject, key,
             count_max, *out_count);
    void *items = tsr_arena_alloc(r->arena, *out_count, size, 16);
    if (!items) FAIL(r->ctx, TSR_MEMORY, "no memory for %zu %s", *out_count, key);
    memcpy(out_items, &items, sizeof items);
    return TSR_SUCCESS;
}

static TSR_RESULT read_ports(tsr_json_reader *r, const cJSON *object, const char *subject,
                             bool input, tsr_config_port **out_ports, size_t *out_count) {
    const char *key = input ? "inputs" : "outputs";
    const cJSON *array, *item;
    size_t index = 0;
    tsr_json_at(r, "%s", subject);
    TRY(r->ctx, tsr_json_read_table(r, object, key, TSR_CONFIG_PORTS_MAX, sizeof **out_ports,
                                    &array, out_count, out_ports));
    cJSON_ArrayForEach(item, array) {
        tsr_json_at(r, "%s.%s[%zu]", subject, key, index);
        TRY(r->ctx, read_port(r, item, input, &(*out_ports)[index++]));
    }
    return TSR_SUCCESS;
}

tsr_result tsr_json_read_entry(tsr_json_reader *r, const cJSON *object, const char *subject,
                               tsr_config_entry *entry) {
    const char *kind;
    tsr_json_at(r, "%s", subject);
    TRY(r->ctx, tsr_json_read_name(r, object, "name", &entry->name));
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, "kind", &r->options, &kind));
    if (!tsr_entry_kind_parse(kind, &entry->kind))
        TSR_JSON_READ_FAIL(r, "kind", "infer, train or eval", kind);
    TRY(r->ctx, tsr_json_get_u64(r->ctx, object, "batch", &r->options, &entry->batch));
    TRY(r->ctx, read_ports(r, object, subject, true, &entry->inputs, &entry->input_count));
    return read_ports(r, object, subject, false, &entry->outputs, &entry->output_count);
}

bool tsr_json_parse_version(const char *text, uint32_t *out_major, uint32_t *out_minor) {
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

tsr_result tsr_json_check_canonical(tsr_ctx *ctx, const char *subject, const tsr_buffer *again,
                                    const char *json, size_t size_bytes) {
    size_t i = 0;
    if (again->failed)
        FAIL(ctx, TSR_MEMORY, "no memory to verify %zu bytes of %s", size_bytes, subject);
    while (i < size_bytes && i < again->size_bytes && json[i] == again->bytes[i]) i++;
    if (i < size_bytes || i < again->size_bytes)
        FAIL(ctx, TSR_CORRUPT,
             "%s: offset %zu of %zu: expected the canonical byte 0x%02x, got 0x%02x", subject, i,
             size_bytes, i < again->size_bytes ? (unsigned char)again->bytes[i] : 0u,
             i < size_bytes ? (unsigned char)json[i] : 0u);
    return TSR_SUCCESS;
}
