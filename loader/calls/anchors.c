/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: a copy that fits · why none does.
 */
#include "loader/calls/anchors.h"

#include "runtime/base/arena.h"

#include <inttypes.h>

/* ---- a copy that fits ------------------------------------------------------------------------ */

/* The copies of one entry: entries first … last - 1. */
typedef struct copies {
    const tsr_config *config;
    size_t first, last;
    tsr_anchor names; /* of the first copy: the symbols */
} copies;

static uint64_t size_of(const copies *c, size_t entry, size_t symbol) {
    tsr_anchor anchor;
    bool read = tsr_anchor_read(c->config->entries[entry].name, &anchor);
    TSR_ASSERT(read && symbol < anchor.count);
    return anchor.sizes[symbol].size;
}

/* The open dim, in dim 0, is checked when the copy is known. */
static bool fits(const tsr_config_port *port, const tsr_anchor_input *input) {
    uint64_t count = 0, rows = port->shape.rank ? port->shape.dims[0] : 1;
    tsr_shape must = port->shape;
    if (!input->is_flat) {
        if (port->dim_times && input->shape->rank) must.dims[0] = input->shape->dims[0];
        return tsr_shape_equal(&must, input->shape);
    }
    if (!tsr_shape_count(&port->shape, &count)) return false;
    if (!port->dim_times || !count) return count == input->shape->dims[0];
    return input->shape->dims[0] <= count && input->shape->dims[0] % (count / rows) == 0;
}

static bool all_fit(const tsr_config_entry *entry, const tsr_anchor_input *inputs, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!fits(&entry->inputs[inputs[i].port], &inputs[i])) return false;
    return true;
}

/* A flat input says only how many elements it has, so several copies can fit. */
static TSR_RESULT check_single(tsr_ctx *ctx, const copies *c, size_t entry,
                               const tsr_anchor_input *inputs, size_t count) {
    const tsr_config_entry *one = &c->config->entries[entry];
    for (size_t i = entry + 1; i < c->last; i++) {
        const tsr_config_entry *other = &c->config->entries[i];
        if (!all_fit(other, inputs, count)) continue;
        for (size_t k = 0; k < count; k++) {
            const tsr_config_port *port = &one->inputs[inputs[k].port];
            if (!inputs[k].is_flat ||
                tsr_shape_equal(&port->shape, &other->inputs[inputs[k].port].shape))
                continue;
            FAIL(
                ctx, TSR_DATA,
                "input '%s' is flat and has %" PRIu64
                " elements, which fits '%s' and '%s'; give the full name of one of them, or a file "
                "that has a shape",
                port->name, inputs[k].shape->dims[0], one->name, other->name);
        }
    }
    return TSR_SUCCESS;
}

/* ---- why none does --------------------------------------------------------------------------- */

/* The symbol whose size dim `dim` of an input has in every copy; the number of symbols if there is
 * none. */
static size_t symbol_of(const copies *c, size_t port, uint32_t dim) {
    for (size_t s = 0; s < c->names.count; s++) {
        size_t entry = c->first;
        while (entry < c->last &&
               c->config->entries[entry].inputs[port].shape.dims[dim] == size_of(c, entry, s))
            entry++;
        if (entry == c->last) return s;
    }
    return c->names.count;
}

/* The size that a call gives to a symbol, and the input that does. */
typedef struct given {
    const char *input; /* NULL: no input has the symbol */
    uint32_t dim;
    uint64_t size;
} given;

static TSR_RESULT read_given(tsr_ctx *ctx, const copies *c, const tsr_anchor_input *input,
                             given *all) {
    const tsr_config_port *port = &c->config->entries[c->first].inputs[input->port];
    if (input->is_flat || input->shape->rank != port->shape.rank) return TSR_SUCCESS;
    for (uint32_t d = port->dim_times ? 1 : 0; d < port->shape.rank; d++) {
        size_t s = symbol_of(c, input->port, d);
        if (s == c->names.count) continue;
        const tsr_anchor_size *symbol = &c->names.sizes[s];
        if (all[s].input && all[s].size != input->shape->dims[d])
            FAIL(ctx, TSR_DATA,
                 "dim '%.*s' of entry '%.*s' is %" PRIu64 " in input '%s' (dim %" PRIu32
                 ") and %" PRIu64 " in input '%s' (dim %" PRIu32 ")",
                 (int)symbol->length, symbol->symbol, (int)c->names.name_length,
                 c->config->entries[c->first].name, all[s].size, all[s].input, all[s].dim,
                 input->shape->dims[d], port->name, d);
        if (!all[s].input) all[s] = (given){port->name, d, input->shape->dims[d]};
    }
    return TSR_SUCCESS;
}

/* "1, 8, 64": the sizes of a symbol for which there are copies. In the arena. */
static const char *list_sizes(const copies *c, size_t symbol, tsr_arena *arena) {
    const char *text = "";
    for (uint64_t last = 0, next; text; last = next) {
        next = UINT64_MAX;
        for (size_t i = c->first; i < c->last; i++) {
            uint64_t size = size_of(c, i, symbol);
            if (size > last && size < next) next = size;
        }
        if (next == UINT64_MAX) break;
        text = tsr_arena_printf(arena, "%s%s%" PRIu64, text, text[0] ? ", " : "", next);
    }
    return text ? text : "?";
}

static TSR_RESULT check_size(tsr_ctx *ctx, const copies *c, size_t symbol, const given *of) {
    tsr_arena arena = {0};
    tsr_result result = TSR_SUCCESS;
    const tsr_anchor_size *name = &c->names.sizes[symbol];
    for (size_t i = c->first; i < c->last; i++)
        if (!of->input || size_of(c, i, symbol) == of->size) return TSR_SUCCESS;
    FAIL_GOTO(ctx, result, TSR_DATA,
              "dim '%.*s' of entry '%.*s' is %" PRIu64 " in input '%s' (dim %" PRIu32
              "); the bundle was built for %s",
              (int)name->length, name->symbol, (int)c->names.name_length,
              c->config->entries[c->first].name, of->size, of->input, of->dim,
              list_sizes(c, symbol, &arena));
done:
    tsr_arena_finish(&arena);
    return result;
}

/* The first copy with the sizes that are given. */
static size_t find_sizes(const copies *c, const given *all) {
    for (size_t i = c->first; i < c->last; i++) {
        size_t s = 0;
        while (s < c->names.count && (!all[s].input || size_of(c, i, s) == all[s].size)) s++;
        if (s == c->names.count) return i;
    }
    return c->first;
}

tsr_result tsr_anchor_choose(tsr_ctx *ctx, const tsr_config *config, size_t first,
                             const tsr_anchor_input *inputs, size_t input_count,
                             size_t *out_entry) {
    copies c = {.config = config, .first = first, .last = first + 1};
    given all[TSR_ANCHOR_SYMBOLS_MAX] = {{0}};
    bool read = tsr_anchor_read(config->entries[first].name, &c.names);
    TSR_ASSERT(read);
    while (c.last < config->entry_count && tsr_anchor_follows(config, c.last)) c.last++;
    for (size_t i = first; i < c.last; i++) {
        if (!all_fit(&config->entries[i], inputs, input_count)) continue;
        TRY(ctx, check_single(ctx, &c, i, inputs, input_count));
        *out_entry = i;
        return TSR_SUCCESS;
    }
    for (size_t i = 0; i < input_count; i++) TRY(ctx, read_given(ctx, &c, &inputs[i], all));
    for (size_t s = 0; s < c.names.count; s++) TRY(ctx, check_size(ctx, &c, s, &all[s]));
    *out_entry = find_sizes(&c, all);
    return TSR_SUCCESS;
}
