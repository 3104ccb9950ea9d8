/* SPDX-License-Identifier: Apache-2.0 */
#include "manifests/json_write.h"

#include "manifests/hexfloat.h"

#include <inttypes.h>

void tsr_json_write_type(tsr_buffer *out, tsr_dtype dtype, const tsr_shape *shape) {
    tsr_buffer_printf(out, ",\"dtype\":\"%s\",\"shape\":[", tsr_dtype_name(dtype));
    for (uint32_t i = 0; i < shape->rank; i++)
        tsr_buffer_printf(out, "%s%" PRIu64, i ? "," : "", shape->dims[i]);
    tsr_buffer_text(out, "]");
}

void tsr_json_write_entry_head(tsr_buffer *out, const tsr_config_entry *entry) {
    tsr_buffer_text(out, "\"name\":");
    tsr_buffer_json_string(out, entry->name);
    tsr_buffer_printf(out, ",\"kind\":\"%s\",\"batch\":%" PRIu64, tsr_entry_kind_name(entry->kind),
                      entry->batch);
}

static void write_hyperparameter(tsr_buffer *out, const tsr_config_hyperparameter *of) {
    char value[TSR_HEXFLOAT_TEXT_MAX], least[TSR_HEXFLOAT_TEXT_MAX], most[TSR_HEXFLOAT_TEXT_MAX];
    tsr_buffer_text(out, ",\"hyperparameter\":");
    tsr_buffer_json_string(out, of->name);
    tsr_buffer_printf(out, ",\"value\":\"%s\",\"least\":\"%s\",\"most\":\"%s\"",
                      tsr_hexfloat_format(of->value, value), tsr_hexfloat_format(of->least, least),
                      tsr_hexfloat_format(of->most, most));
}

void tsr_json_write_ports(tsr_buffer *out, const char *key, const tsr_config_port *ports,
                          size_t count, tsr_json_ports of) {
    bool first = true;
    tsr_buffer_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        bool is_number = ports[i].source == TSR_PORT_HYPERPARAMETER;
        if (is_number && of != TSR_JSON_CONFIG_INPUTS) continue;
        tsr_buffer_text(out, first ? "{\"name\":" : ",{\"name\":");
        first = false;
        tsr_buffer_json_string(out, ports[i].name);
        tsr_json_write_type(out, ports[i].dtype, &ports[i].shape);
        if (of != TSR_JSON_OUTPUTS)
            tsr_buffer_printf(out, ",\"source\":\"%s\"", tsr_port_source_name(ports[i].source));
        if (is_number) write_hyperparameter(out, ports[i].hyperparameter);
        if (ports[i].watched) tsr_buffer_text(out, ",\"watched\":true");
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "]");
}

tsr_result tsr_json_take(tsr_ctx *ctx, const tsr_buffer *buffer, const char *subject,
                         tsr_arena *arena, char **out_json, size_t *out_size_bytes) {
    char *json =
        buffer->failed ? NULL : tsr_arena_strndup(arena, buffer->bytes, buffer->size_bytes);
    if (!json) FAIL(ctx, TSR_MEMORY, "no memory to write the %s", subject);
    *out_json = json;
    *out_size_bytes = buffer->size_bytes;
    return TSR_SUCCESS;
}
