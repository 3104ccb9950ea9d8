/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot inspect as text: identity of the bundle, its size by section, entries, tensors,
 * targets.
 */
#include "runtime/base/plural.h"
#include "tools/aot/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TENSORS_SHOWN = 20, OPEN_TYPE_MAX = TSR_TYPE_TEXT_MAX + TSR_NAME_MAX + 24 };

static void text_sections(const inspect_view *v, tsr_buffer *out) {
    uint64_t file = tsr_bundle_get_file_size(v->bundle), sum = 0;
    tsr_buffer_text(out, "sections, bytes\n");
    for (size_t i = 0; i < v->section_count; i++) {
        const inspect_section *section = &v->sections[i];
        sum += section->size_bytes;
        tsr_buffer_printf(out, "  %-20s %16" PRIu64 "  %zu blob%s\n", section->name,
                          section->size_bytes, section->blob_count,
                          TSR_PLURAL(section->blob_count));
    }
    if (file) tsr_buffer_printf(out, "  %-20s %16" PRIu64 "\n", "container", file - sum);
}

/* Writes "2*Nx64xui8", the type of a port that has the open dim. */
static const char *open_type(const tsr_config_entry *entry, const tsr_config_port *port,
                             char out[OPEN_TYPE_MAX]) {
    char type[TSR_TYPE_TEXT_MAX], times[24] = "";
    tsr_type_format(port->dtype, &port->shape, type);
    if (port->dim_times > 1) snprintf(times, sizeof times, "%" PRIu64 "*", port->dim_times);
    if (port->dim_times)
        snprintf(out, OPEN_TYPE_MAX, "%s%s%s", times, entry->open.name, strchr(type, 'x'));
    else
        snprintf(out, OPEN_TYPE_MAX, "%s", type);
    return out;
}

/* Writes "x: ?x64xui8": a question mark means any number of rows. */
static void text_port(const tsr_config_entry *entry, const tsr_config_port *port, tsr_buffer *out) {
    bool any_rows = entry->rows_independent;
    char type[OPEN_TYPE_MAX];
    const char *shown = open_type(entry, port, type);
    if (any_rows && port->shape.rank) {
        shown = strchr(type, 'x');
        tsr_buffer_printf(out, "%s: ?%s", port->name, shown);
        return;
    }
    tsr_buffer_printf(out, "%s: %s", port->name, shown);
}

static void text_signature(const tsr_config_entry *entry, tsr_buffer *out) {
    tsr_buffer_printf(out, "    %s(", entry->name);
    for (size_t i = 0; i < entry->input_count; i++) {
        if (i) tsr_buffer_text(out, ", ");
        text_port(entry, &entry->inputs[i], out);
    }
    tsr_buffer_text(out, ") -> (");
    for (size_t i = 0; i < entry->output_count; i++) {
        if (i) tsr_buffer_text(out, ", ");
        text_port(entry, &entry->outputs[i], out);
    }
    tsr_buffer_text(out, ")\n");
}

static void text_ports(const char *word, const tsr_config_entry *entry,
                       const tsr_config_port *ports, size_t count, bool inputs, tsr_buffer *out) {
    char type[OPEN_TYPE_MAX];
    for (size_t i = 0; i < count; i++) {
        const char *source = inputs ? tsr_port_source_name(ports[i].source) : "";
        tsr_buffer_printf(out, "    %-6s %-24s %-16s %s", word, ports[i].name,
                          open_type(entry, &ports[i], type), source);
        if (ports[i].hyperparameter)
            tsr_buffer_printf(out, " %s %.9g", ports[i].hyperparameter->name,
                              ports[i].hyperparameter->value);
        tsr_buffer_text(out, "\n");
    }
}

static void text_handler(const inspect_view *v, const char *word, uint32_t handler,
                         tsr_buffer *out) {
    if (handler) tsr_buffer_printf(out, "  %s @%s", word, v->config.entries[handler - 1].name);
}

static void text_regions(const inspect_view *v, const tsr_program_entry *plan, tsr_buffer *out) {
    for (uint32_t i = 0; i < plan->region_count; i++) {
        const tsr_program_region *region = &plan->regions[i];
        inspect_span span = inspect_region(plan, i);
        tsr_buffer_printf(out, "    region %-24s %s", region->name, inspect_mode(region->mode));
        if (region->mode != TSR_REGION_IMPORTED)
            tsr_buffer_printf(out, "  commands %u to %u", span.first, span.last);
        text_handler(v, "on failure", region->on_failure, out);
        if (span.exported) tsr_buffer_text(out, "  exported");
        tsr_buffer_text(out, "\n");
    }
    if (!plan->on_recovery) return;
    tsr_buffer_text(out, "    events");
    text_handler(v, "on recovery", plan->on_recovery, out);
    tsr_buffer_text(out, "\n");
}

static void text_offloaded(inspect_view *v, size_t entry, tsr_buffer *out) {
    for (size_t i = 0; i < v->target_count; i++) {
        const tsr_program_entry *plan = inspect_offloaded(v, i, entry);
        if (plan)
            tsr_buffer_printf(out,
                              "    on %s: workspace %" PRIu64 " (peak in use %" PRIu64
                              "), and %" PRIu64 " byte%s of the host for values that wait there\n",
                              tsr_bundle_get_target_name(v->bundle, i), plan->workspace_bytes,
                              inspect_peak(plan, &v->arena),
                              tsr_program_space_bytes(plan, TSR_SPACE_HOST),
                              TSR_PLURAL(tsr_program_space_bytes(plan, TSR_SPACE_HOST)));
    }
}

static void text_entry(inspect_view *v, size_t index, tsr_buffer *out) {
    const tsr_config_entry *entry = &v->config.entries[index];
    const tsr_program_entry *plan = inspect_plan(v, index);
    tsr_buffer_printf(out, "  @%s  %s", entry->name, tsr_entry_kind_name(entry->kind));
    if (entry->batch) tsr_buffer_printf(out, ", batch %" PRIu64, entry->batch);
    if (entry->rows_independent) tsr_buffer_text(out, ", rows independent");
    if (entry->open.name)
        tsr_buffer_printf(out, ", %s from %" PRIu64 " to %" PRIu64, entry->open.name,
                          entry->open.low, entry->open.high);
    if (plan)
        tsr_buffer_printf(out,
                          "; memory: tensors %" PRIu64 ", workspace %" PRIu64
                          " (peak in use %" PRIu64 "), inputs %" PRIu64 ", outputs %" PRIu64
                          " byte%s; %u command%s, whose kernels read and "
                          "write %" PRIu64 " byte%s",
                          inspect_tensors_bytes(&v->config), plan->workspace_bytes,
                          inspect_peak(plan, &v->arena),
                          inspect_ports_bytes(entry->inputs, entry->input_count),
                          inspect_ports_bytes(entry->outputs, entry->output_count),
                          TSR_PLURAL(inspect_ports_bytes(entry->outputs, entry->output_count)),
                          plan->command_count, TSR_PLURAL(plan->command_count),
                          inspect_launch_bytes(plan, v->config.virtual_ranks),
                          TSR_PLURAL(inspect_launch_bytes(plan, v->config.virtual_ranks)));
    tsr_buffer_text(out, "\n");
    text_signature(entry, out);
    text_offloaded(v, index, out);
    if (plan) text_regions(v, plan, out);
    text_ports("input", entry, entry->inputs, entry->input_count, true, out);
    text_ports("output", entry, entry->outputs, entry->output_count, false, out);
}

static void text_init(const tsr_config_tensor *tensor, tsr_buffer *out) {
    switch (tensor->init) {
    case TSR_INIT_DATA:
        tsr_buffer_text(out, "stored");
        break;
    case TSR_INIT_CONSTANT:
        tsr_buffer_printf(out, "all %.9g", tensor->init_a);
        break;
    case TSR_INIT_UNIFORM:
        tsr_buffer_printf(out, "uniform [%.9g, %.9g)", tensor->init_a, tensor->init_b);
        break;
    case TSR_INIT_NORMAL:
        tsr_buffer_printf(out, "normal mean %.9g deviation %.9g", tensor->init_a, tensor->init_b);
        break;
    }
}

static void text_tensors(const inspect_view *v, tsr_buffer *out) {
    char type[TSR_TYPE_TEXT_MAX];
    size_t count = v->config.tensor_count, shown = count;
    if (!v->all_tensors && shown > TENSORS_SHOWN) shown = TENSORS_SHOWN;
    tsr_buffer_text(out, "tensors, bytes, the largest first\n");
    for (size_t i = 0; i < shown; i++) {
        const tsr_config_tensor *tensor = v->by_size[i];
        tsr_buffer_printf(out, "  %14" PRIu64 "  %-8s %-28s %-16s ", inspect_tensor_bytes(tensor),
                          tsr_tensor_role_name(tensor->role), tensor->name,
                          tsr_type_format(tensor->dtype, &tensor->shape, type));
        text_init(tensor, out);
        if (tensor->frozen) tsr_buffer_text(out, "; frozen");
        if (tensor->no_decay) tsr_buffer_text(out, "; no decay");
        if (tensor->lr_factor) tsr_buffer_printf(out, "; lr times %.9g", tensor->lr_factor);
        if (inspect_part_bytes(v, tensor))
            tsr_buffer_printf(out, "; a part of %" PRIu64 " for each virtual rank",
                              inspect_part_bytes(v, tensor));
        tsr_buffer_text(out, "\n");
    }
    if (shown < count)
        tsr_buffer_printf(out, "  and %zu smaller one%s: --tensors lists all\n", count - shown,
                          TSR_PLURAL(count - shown));
}

static void text_warps(uint32_t warps, tsr_buffer *out) {
    if (warps)
        tsr_buffer_printf(out, "%5u\n", warps);
    else
        tsr_buffer_printf(out, "%5s\n", "?");
}

/* Writes the resources that kernels take of a multiprocessor, and the occupancy they allow. */
static void text_kernels(const inspect_view *v, size_t target, tsr_buffer *out) {
    const tsr_fatbin *code = &v->codes[target];
    if (!v->all_kernels || !code->kernel_count) return;
    if (inspect_is_amd(code)) {
        inspect_show_amd_kernels(v, target, out);
        return;
    }
    tsr_buffer_printf(out, "  %-32s %7s %9s %8s %7s %8s %5s  %s\n", "kernel", "threads",
                      "registers", "shared", "scratch", "spilt", "warps",
                      "of a multiprocessor's 64");
    for (uint32_t i = 0; i < code->kernel_count; i++) {
        const tsr_fatbin_kernel *k = &code->kernels[i];
        tsr_buffer_printf(out, "  %-32s %7u %9u %8u %7u %8u ", v->programs[target].kernels[i],
                          k->threads, k->registers, k->shared_bytes + k->static_bytes,
                          k->scratch_bytes, k->spill_bytes);
        text_warps(inspect_warps(code, i), out);
    }
}

static void text_targets(const inspect_view *v, tsr_buffer *out) {
    char hex[TSR_DIGEST_HEX + 1];
    for (size_t i = 0; i < v->target_count; i++) {
        tsr_buffer_printf(out, "target %s", tsr_bundle_get_target_name(v->bundle, i));
        tsr_buffer_printf(out, "  %u kernel%s\n", v->programs[i].kernel_count,
                          TSR_PLURAL(v->programs[i].kernel_count));
        for (size_t k = 0; k < tsr_bundle_get_layer_count(v->bundle, i); k++) {
            tsr_bundle_layer layer = tsr_bundle_get_layer(v->bundle, i, k);
            tsr_digest_format(&layer.digest, hex);
            tsr_buffer_printf(out, "  %12" PRIu64 "  sha256:%.16s  %-20s %s\n", layer.size_bytes,
                              hex, layer.title ? layer.title : "", layer.media_type);
        }
        text_kernels(v, i, out);
    }
}

static void text_signer(const inspect_view *v, tsr_buffer *out) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&v->signature.key_id, hex);
    switch (v->signature.state) {
    case TSR_SIGNATURE_ABSENT:
        tsr_buffer_text(out, "signer none\n");
        return;
    case TSR_SIGNATURE_UNCHECKED:
        tsr_buffer_printf(out, "signer says key sha256:%s; not checked: --key is missing\n", hex);
        return;
    case TSR_SIGNATURE_GOOD:
        tsr_buffer_printf(out, "signer key sha256:%s, checked\n", hex);
        return;
    }
}

static void text_provenance(const inspect_view *v, tsr_buffer *out) {
    char hex[TSR_DIGEST_HEX + 1];
    if (!v->has_provenance) {
        tsr_buffer_text(out, "built from: not recorded\n");
        return;
    }
    for (size_t i = 0; i < v->provenance.input_count; i++) {
        tsr_digest_format(&v->provenance.inputs[i].digest, hex);
        tsr_buffer_printf(out, "%s %s sha256:%s\n", i ? "      and" : "built from",
                          v->provenance.inputs[i].name, hex);
    }
    tsr_buffer_text(out, "built by");
    for (size_t i = 0; i < v->provenance.library_count; i++)
        tsr_buffer_printf(out, "%s %s %s", i ? "," : "", v->provenance.libraries[i].name,
                          v->provenance.libraries[i].value);
    tsr_buffer_printf(out, "%s%s\n", v->provenance.started_on ? ", " : "",
                      v->provenance.started_on ? v->provenance.started_on : "");
}

static void text_schedule(const inspect_view *v, tsr_buffer *out) {
    const inspect_schedule *schedule = &v->schedule;
    if (!schedule->found) {
        tsr_buffer_text(out, "schedule none\n");
        return;
    }
    tsr_buffer_printf(out, "schedule of %zu entr%s, %zu kernel call%s; origin: %s\n",
                      schedule->entry_count, TSR_PLURAL_Y(schedule->entry_count),
                      schedule->call_count, TSR_PLURAL(schedule->call_count),
                      schedule->origin ? schedule->origin : "not recorded");
}

static void text_program(const inspect_view *v, tsr_buffer *out) {
    const tsr_identity *identity = &v->config.identity;
    char hex[TSR_DIGEST_HEX + 1];
    if (!tsr_identity_is_known(identity)) {
        tsr_buffer_text(out, "program: no digest\n");
        return;
    }
    tsr_digest_format(&identity->program, hex);
    tsr_buffer_printf(out, "program sha256:%s", hex);
    for (size_t i = 0; i < identity->hyperparameter_count; i++)
        tsr_buffer_printf(out, "%s %s %s", i ? "," : "\nhyper-parameters",
                          identity->hyperparameters[i].name, identity->hyperparameters[i].value);
    tsr_buffer_text(out, "\n");
}

/* The digest above belongs to the whole bundle. */
static void text_slice(const inspect_view *v, tsr_buffer *out) {
    const char *target = NULL;
    if (!tsr_bundle_is_slice(v->bundle)) return;
    tsr_buffer_text(out, "slice of that bundle; not here:");
    for (size_t i = 0; (target = tsr_bundle_get_missing_target(v->bundle, i)); i++)
        tsr_buffer_printf(out, "%s %s", i ? "," : "", target);
    tsr_buffer_text(out, "\n");
}

static void text_effects(const inspect_view *v, tsr_buffer *out) {
    char made[TSR_EFFECTS_TEXT_MAX], stated[TSR_EFFECTS_TEXT_MAX];
    if (!v->effects) return;
    tsr_buffer_text(out, "effects\n");
    for (size_t i = 0; i < v->config.entry_count; i++) {
        const tsr_config_entry *entry = &v->config.entries[i];
        bool runs = inspect_plan(v, i) != NULL;
        tsr_buffer_printf(out, "  @%s  %s", entry->name,
                          runs ? tsr_effects_format(inspect_effects(v, i), made) : "not known");
        if (entry->states_effects)
            tsr_buffer_printf(out, "; the program states: %s",
                              tsr_effects_format(entry->effects, stated));
        tsr_buffer_text(out, "\n");
    }
}

void inspect_show_text(inspect_view *v, tsr_buffer *out) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest digest = tsr_bundle_get_digest(v->bundle);
    tsr_digest_format(&digest, hex);
    tsr_buffer_printf(out, "%s  %s, %s numerics, %" PRIu64 " virtual rank%s\n", v->config.name,
                      v->config.producer, v->config.numerics, v->config.virtual_ranks,
                      TSR_PLURAL(v->config.virtual_ranks));
    tsr_buffer_printf(out, "bundle sha256:%s, format %u.%u, ", hex, v->config.version_major,
                      v->config.version_minor);
    uint64_t size = tsr_bundle_get_file_size(v->bundle);
    if (size)
        tsr_buffer_printf(out, "%" PRIu64 " byte%s\n", size, TSR_PLURAL(size));
    else
        tsr_buffer_text(out, "unpacked\n");
    text_program(v, out);
    text_slice(v, out);
    text_signer(v, out);
    text_provenance(v, out);
    text_schedule(v, out);
    inspect_show_kernel_sizes(v, out);
    text_sections(v, out);
    tsr_buffer_text(out, "entries\n");
    for (size_t i = 0; i < v->config.entry_count; i++) text_entry(v, i, out);
    text_effects(v, out);
    text_tensors(v, out);
    text_targets(v, out);
}
