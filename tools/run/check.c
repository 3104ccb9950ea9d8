/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/check.h"

#include "runtime/base/array.h"
#include "runtime/base/buffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The memory values that both output forms report, in this order. */
typedef struct memory_row {
    const char *key, *text;
    uint64_t size_bytes;
} memory_row;
enum { MEMORY_ROWS = 16 };

static void list_memory(const tsr_check_memory *memory, memory_row rows[static MEMORY_ROWS]) {
    const memory_row all[] = {
        {"parameterBytes", "parameters", memory->parameter_bytes},
        {"stateBytes", "optimizer state", memory->state_bytes},
        {"constantBytes", "constants", memory->constant_bytes},
        {"preparedBytes", "prepacked weights", memory->prepacked_bytes},
        {"workspaceBytes", "workspace", memory->workspace_bytes},
        {"portBytes", "inputs and outputs", memory->port_bytes},
        {"awayBytes", "offloaded values on the host", memory->offloaded_bytes},
        {"codeBytes", "code of kernels", memory->code_bytes},
        {"scratchBytes", "scratch memory of kernels", memory->scratch_bytes},
        {"stagingBytes", "staging while loading, a thread", memory->staging_bytes},
        {"hostBytes", "host, in all", memory->host_bytes},
        {"saveBytes", "more with --state-dir", memory->save_bytes},
        {"deviceBytes", "device", memory->device_bytes},
        {"deviceFreeBytes", "free on the device", memory->device_free_bytes},
        {"deviceAllowedBytes", "allowed there (0: all)", memory->device_allowed_bytes},
        {"availableBytes", "available on this host", memory->available_bytes},
    };
    static_assert(TSR_COUNT(all) == MEMORY_ROWS, "one row for each");
    memcpy(rows, all, sizeof all);
}

static bool is_needed(const tsr_config_port *port) { return !tsr_port_is_filled(port->source); }

/* ---- text output ---- */

static void text_targets(const tsr_check_report *report, tsr_buffer *out) {
    tsr_buffer_printf(out, "targets (this CPU: %s)\n", report->cpu);
    for (size_t i = 0; i < report->target_count; i++) {
        const tsr_check_target *target = &report->targets[i];
        tsr_buffer_printf(out, "  %s %-20s %s%s", target->chosen ? "*" : " ", target->name,
                          target->chosen ? "" : "not: ", target->reason);
        if (target->driver)
            tsr_buffer_printf(out, "; needs %s, from %s", target->driver, target->driver_origin);
        tsr_buffer_text(out, "\n");
    }
}

static const tsr_check_target *chosen(const tsr_check_report *report) {
    for (size_t i = 0; i < report->target_count; i++)
        if (report->targets[i].chosen) return &report->targets[i];
    return NULL;
}

static void text_memory(const tsr_check_report *report, tsr_buffer *out) {
    memory_row rows[MEMORY_ROWS];
    const tsr_check_target *target = chosen(report);
    if (!target) return;
    tsr_buffer_printf(out, "numerics %s\ndrivers  %s\nmemory, bytes\n", report->numerics,
                      target->driver ? target->driver : "none");
    list_memory(&report->memory, rows);
    for (size_t i = 0; i < MEMORY_ROWS; i++)
        if (rows[i].size_bytes == UINT64_MAX)
            tsr_buffer_printf(out, "  %-32s %16s\n", rows[i].text, "unknown");
        else
            tsr_buffer_printf(out, "  %-32s %16" PRIu64 "\n", rows[i].text, rows[i].size_bytes);
}

static void text_entries(const tsr_check_report *report, tsr_buffer *out) {
    char type[TSR_TYPE_TEXT_MAX];
    if (!report->config) return;
    tsr_buffer_text(out, "entries\n");
    for (size_t i = 0; i < report->config->entry_count; i++) {
        const tsr_config_entry *entry = &report->config->entries[i];
        tsr_buffer_printf(out, "  %s  %s\n", entry->name, tsr_entry_kind_name(entry->kind));
        for (size_t k = 0; k < entry->input_count; k++) {
            const tsr_config_port *port = &entry->inputs[k];
            if (is_needed(port))
                tsr_buffer_printf(out, "    needs %s %s=…  %s\n",
                                  port->source == TSR_PORT_DATA ? "--data" : "--input", port->name,
                                  tsr_type_format(port->dtype, &port->shape, type));
        }
    }
}

static void show_text(const tsr_check_report *report, const char *path, tsr_buffer *out) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&report->digest, hex);
    tsr_buffer_printf(out, "%s: %s\n", path, report->code ? "does not run here" : "runs here");
    if (report->code)
        tsr_buffer_printf(out, "why:     %s\ndo this: %s\n", report->problem, report->advice);
    if (!report->config) return;
    tsr_buffer_printf(out, "bundle   %s, sha256:%.16s, %s\n", report->config->name, hex,
                      report->is_signed ? "signed" : "not signed");
    if (report->choice) tsr_buffer_printf(out, "device   %s\n", report->choice);
    text_targets(report, out);
    text_memory(report, out);
    text_entries(report, out);
}

/* ---- for programs ---- */

static void json_text(tsr_buffer *out, const char *key, const char *text) {
    tsr_buffer_printf(out, "\"%s\":", key);
    if (text)
        tsr_buffer_json_string(out, text);
    else
        tsr_buffer_text(out, "null");
}

static void json_targets(const tsr_check_report *report, tsr_buffer *out) {
    tsr_buffer_text(out, ",\"targets\":[");
    for (size_t i = 0; i < report->target_count; i++) {
        const tsr_check_target *target = &report->targets[i];
        tsr_buffer_text(out, i ? ",{" : "{");
        json_text(out, "name", target->name);
        tsr_buffer_printf(out, ",\"chosen\":%s,", target->chosen ? "true" : "false");
        json_text(out, "reason", target->reason);
        tsr_buffer_text(out, ",");
        json_text(out, "driver", target->driver);
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "]");
}

static void json_memory(const tsr_check_report *report, tsr_buffer *out) {
    memory_row rows[MEMORY_ROWS];
    tsr_buffer_text(out, ",\"memory\":");
    if (!chosen(report)) {
        tsr_buffer_text(out, "null");
        return;
    }
    list_memory(&report->memory, rows);
    for (size_t i = 0; i < MEMORY_ROWS; i++)
        if (rows[i].size_bytes == UINT64_MAX)
            tsr_buffer_printf(out, "%s\"%s\":null", i ? "," : "{", rows[i].key);
        else
            tsr_buffer_printf(out, "%s\"%s\":%" PRIu64, i ? "," : "{", rows[i].key,
                              rows[i].size_bytes);
    tsr_buffer_text(out, "}");
}

static void json_needs(const tsr_config_entry *entry, tsr_buffer *out) {
    bool first = true;
    tsr_buffer_text(out, ",\"needs\":[");
    for (size_t i = 0; i < entry->input_count; i++) {
        const tsr_config_port *port = &entry->inputs[i];
        if (!is_needed(port)) continue;
        tsr_buffer_text(out, first ? "{" : ",{");
        first = false;
        json_text(out, "name", port->name);
        tsr_buffer_printf(out, ",\"flag\":\"%s\",\"dtype\":\"%s\",\"shape\":[",
                          port->source == TSR_PORT_DATA ? "--data" : "--input",
                          tsr_dtype_name(port->dtype));
        for (uint32_t k = 0; k < port->shape.rank; k++)
            tsr_buffer_printf(out, "%s%" PRIu64, k ? "," : "", port->shape.dims[k]);
        tsr_buffer_text(out, "]}");
    }
    tsr_buffer_text(out, "]");
}

static void json_entries(const tsr_check_report *report, tsr_buffer *out) {
    size_t count = report->config ? report->config->entry_count : 0;
    tsr_buffer_text(out, ",\"entries\":[");
    for (size_t i = 0; i < count; i++) {
        const tsr_config_entry *entry = &report->config->entries[i];
        tsr_buffer_text(out, i ? ",{" : "{");
        json_text(out, "name", entry->name);
        tsr_buffer_printf(out, ",\"kind\":\"%s\",\"batch\":%" PRIu64,
                          tsr_entry_kind_name(entry->kind), entry->batch);
        json_needs(entry, out);
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "]");
}

static void show_json(const tsr_check_report *report, const char *path, tsr_buffer *out) {
    char digest[sizeof "sha256:" + TSR_DIGEST_HEX] = "sha256:";
    const tsr_check_target *target = chosen(report);
    tsr_digest_format(&report->digest, digest + sizeof "sha256:" - 1);
    tsr_buffer_text(out, "{");
    json_text(out, "file", path);
    tsr_buffer_printf(out, ",\"runs\":%s,\"exitCode\":%d,\"code\":\"%s\",",
                      report->code ? "false" : "true", (int)report->code,
                      tsr_code_name(report->code));
    json_text(out, "problem", report->problem);
    tsr_buffer_text(out, ",");
    json_text(out, "advice", report->advice);
    tsr_buffer_text(out, ",");
    json_text(out, "digest", report->config ? digest : NULL);
    tsr_buffer_printf(out, ",\"signed\":%s,", report->is_signed ? "true" : "false");
    json_text(out, "cpu", report->cpu);
    tsr_buffer_text(out, ",");
    json_text(out, "numerics", report->numerics);
    tsr_buffer_text(out, ",");
    json_text(out, "choice", report->choice);
    tsr_buffer_text(out, ",\"drivers\":[");
    if (target && target->driver) tsr_buffer_json_string(out, target->driver);
    tsr_buffer_text(out, "]");
    json_targets(report, out);
    json_memory(report, out);
    json_entries(report, out);
    tsr_buffer_text(out, "}\n");
}

tsr_result tsr_run_check(tsr_ctx *ctx, const char *path, const tsr_model_options *options,
                         bool json) {
    tsr_arena arena = {0};
    tsr_buffer out = {0};
    tsr_check_report report;
    tsr_result result = tsr_model_check(ctx, path, options, &arena, &report);
    if (!report.code != !result.code) { /* wrong options or no memory: the bundle was not read */
        tsr_arena_finish(&arena);
        return result;
    }
    if (json)
        show_json(&report, path, &out);
    else
        show_text(&report, path, &out);
    if (out.failed && !result.code)
        result = tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory to show '%s'", path);
    if (!out.failed) fwrite(out.bytes, 1, out.size_bytes, stdout);
    tsr_buffer_finish(&out);
    tsr_arena_finish(&arena);
    return result;
}
