/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/aot/diff/diff.h"

#include <inttypes.h>
#include <string.h>

static void diff_text(diff *d, const char *name, const char *a, const char *b) {
    if (strcmp(a, b) != 0)
        diff_note(d, "config", NULL, name, DIFF_CHANGED, NULL, "'%s' became '%s'", a, b);
}

/* ---- the program ---- */

static void diff_hyperparameters(diff *d, const tsr_identity *a, const tsr_identity *b) {
    tsr_identity_cursor at = {0};
    tsr_hyperparameter_change change;
    while (tsr_identity_next_change(a, b, &at, &change))
        diff_note(d, "hyper", NULL, change.name,
                  !change.a   ? DIFF_ADDED
                  : !change.b ? DIFF_REMOVED
                              : DIFF_CHANGED,
                  NULL, "%s %s -> %s", change.name, change.a ? change.a : "none",
                  change.b ? change.b : "none");
}

static void diff_identity(diff *d, const tsr_identity *a, const tsr_identity *b) {
    char left[TSR_DIGEST_HEX + 1], right[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&a->program, left);
    tsr_digest_format(&b->program, right);
    if (tsr_identity_is_known(a) && tsr_identity_is_known(b))
        diff_text(d, "program", left, right);
    else if (tsr_identity_is_known(a) || tsr_identity_is_known(b))
        diff_note(d, "config", NULL, "program",
                  tsr_identity_is_known(a) ? DIFF_REMOVED : DIFF_ADDED, NULL, "'%s'",
                  tsr_identity_is_known(a) ? left : right);
}

/* ---- tensors ---- */

static void format_tensor(const tsr_config_tensor *tensor, tsr_buffer *out) {
    char type[TSR_TYPE_TEXT_MAX];
    tsr_buffer_printf(out, "%s %s %s", tsr_tensor_role_name(tensor->role),
                      tsr_type_format(tensor->dtype, &tensor->shape, type),
                      tsr_init_kind_name(tensor->init));
    if (tensor->of) tsr_buffer_printf(out, " of %s (%s)", tensor->of, tensor->kind);
    if (tensor->init == TSR_INIT_DATA) return;
    tsr_buffer_printf(out, " %.17g", tensor->init_a);
    if (tensor->init == TSR_INIT_CONSTANT) return;
    tsr_buffer_printf(out, " %.17g stream %u", tensor->init_b, tensor->init_stream);
}

static void diff_tensor(diff *d, const tsr_config_tensor *a, const tsr_config_tensor *b) {
    tsr_buffer left = {0}, right = {0};
    format_tensor(a, &left);
    format_tensor(b, &right);
    if (!left.failed && !right.failed && strcmp(left.bytes, right.bytes) != 0)
        diff_note(d, "declaration", NULL, a->name, DIFF_CHANGED, NULL, "%s became %s", left.bytes,
                  right.bytes);
    d->out.failed |= left.failed || right.failed;
    tsr_buffer_finish(&left);
    tsr_buffer_finish(&right);
}

/* Both lists are sorted by name. */
static void diff_declarations(diff *d) {
    const tsr_config *a = &d->sides[0].config, *b = &d->sides[1].config;
    for (size_t i = 0, k = 0; i < a->tensor_count || k < b->tensor_count;) {
        int order = i == a->tensor_count   ? 1
                    : k == b->tensor_count ? -1
                                           : strcmp(a->tensors[i].name, b->tensors[k].name);
        if (order == 0)
            diff_tensor(d, &a->tensors[i], &b->tensors[k]);
        else
            diff_note(d, "declaration", NULL, order < 0 ? a->tensors[i].name : b->tensors[k].name,
                      order < 0 ? DIFF_REMOVED : DIFF_ADDED, NULL, "tensor");
        i += order <= 0;
        k += order >= 0;
    }
}

/* ---- entries ---- */

static void format_ports(const tsr_config_port *ports, size_t count, tsr_buffer *out) {
    char type[TSR_TYPE_TEXT_MAX];
    for (size_t i = 0; i < count; i++)
        tsr_buffer_printf(out, "%s%s: %s %s", i ? ", " : "", ports[i].name,
                          tsr_type_format(ports[i].dtype, &ports[i].shape, type),
                          tsr_port_source_name(ports[i].source));
}

static void format_entry(const tsr_config_entry *entry, tsr_buffer *out) {
    tsr_buffer_printf(out, "%s, batch %" PRIu64 "%s (", tsr_entry_kind_name(entry->kind),
                      entry->batch, entry->rows_independent ? ", rows independent" : "");
    if (entry->open.name)
        tsr_buffer_printf(out, "%s from %" PRIu64 " to %" PRIu64 " ", entry->open.name,
                          entry->open.low, entry->open.high);
    format_ports(entry->inputs, entry->input_count, out);
    tsr_buffer_text(out, ") -> (");
    format_ports(entry->outputs, entry->output_count, out);
    tsr_buffer_text(out, ")");
}

static void diff_entry(diff *d, const tsr_config_entry *a, const tsr_config_entry *b) {
    tsr_buffer left = {0}, right = {0};
    format_entry(a, &left);
    format_entry(b, &right);
    if (!left.failed && !right.failed && strcmp(left.bytes, right.bytes) != 0)
        diff_note(d, "entry", NULL, a->name, DIFF_CHANGED, NULL, "%s became %s", left.bytes,
                  right.bytes);
    d->out.failed |= left.failed || right.failed;
    tsr_buffer_finish(&left);
    tsr_buffer_finish(&right);
}

static void diff_entries(diff *d) {
    const tsr_config *a = &d->sides[0].config, *b = &d->sides[1].config;
    for (size_t i = 0, k = 0; i < a->entry_count || k < b->entry_count;) {
        int order = i == a->entry_count   ? 1
                    : k == b->entry_count ? -1
                                          : strcmp(a->entries[i].name, b->entries[k].name);
        if (order == 0)
            diff_entry(d, &a->entries[i], &b->entries[k]);
        else
            diff_note(d, "entry", NULL, order < 0 ? a->entries[i].name : b->entries[k].name,
                      order < 0 ? DIFF_REMOVED : DIFF_ADDED, NULL, "entry");
        i += order <= 0;
        k += order >= 0;
    }
}

void diff_config(diff *d) {
    const tsr_config *a = &d->sides[0].config, *b = &d->sides[1].config;
    bool known = tsr_identity_is_known(&a->identity) && tsr_identity_is_known(&b->identity);
    if (known) diff_hyperparameters(d, &a->identity, &b->identity);
    diff_identity(d, &a->identity, &b->identity);
    diff_text(d, "name", a->name, b->name);
    diff_text(d, "producer", a->producer, b->producer);
    diff_text(d, "numerics", a->numerics, b->numerics);
    if (a->virtual_ranks != b->virtual_ranks)
        diff_note(d, "config", NULL, "virtualRanks", DIFF_CHANGED, NULL,
                  "%" PRIu64 " became %" PRIu64, a->virtual_ranks, b->virtual_ranks);
    diff_entries(d);
    diff_declarations(d);
}
