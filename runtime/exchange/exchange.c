/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exchange/exchange.h"

#include "runtime/base/array.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    const tsr_exchanger_kind *kind;
} rows[] = {
#define X(name, table) {name, &table},
#include "runtime/exchange/kinds.def"
#undef X
};

typedef struct verdict {
    uint64_t failed;
    char text[TSR_EXCHANGE_REASON_MAX];
} verdict;

tsr_result tsr_exchange_agree(tsr_ctx *ctx, tsr_transport *t, tsr_result result, const char *error,
                              char out_text[static TSR_EXCHANGE_REASON_MAX], bool *out_agreed) {
    verdict own = {.failed = result.code != TSR_OK};
    unsigned char failed[TSR_TRANSPORT_RANKS_MAX];
    failed[t->rank] = own.failed != 0;
    TRY(ctx, tsr_all_gather_each(ctx, t, failed, 1));
    const unsigned char *found = memchr(failed, 1, t->rank_count);
    *out_agreed = !found;
    if (!found) return TSR_SUCCESS;
    snprintf(own.text, sizeof own.text, "%.*s", TSR_EXCHANGE_REASON_MAX - 1, error);
    TRY(ctx, tsr_broadcast(ctx, t, (uint32_t)(found - failed), &own, sizeof own));
    memcpy(out_text, own.text, sizeof own.text);
    return TSR_SUCCESS;
}

char *tsr_exchange_address(const tsr_exchanger *x, const void *bytes) {
    const tsr_device_memory *memory = x->options.memory;
    return memory->device + ((const char *)bytes - memory->host);
}

tsr_device_range tsr_exchange_range(const tsr_exchanger *x, const void *bytes, size_t size_bytes) {
    const tsr_device_memory *memory = x->options.memory;
    return (tsr_device_range){(uint64_t)((const char *)bytes - memory->host), size_bytes};
}

tsr_result tsr_exchange_combine(tsr_ctx *ctx, tsr_exchanger *x, tsr_reduction reduction, void *out,
                                const void *a, const void *b, size_t count) {
    tsr_device *device = x->options.device;
    return device->type->combine(ctx, device, reduction, tsr_exchange_address(x, out),
                                 tsr_exchange_address(x, a), tsr_exchange_address(x, b), count);
}

tsr_result tsr_exchange_all_reduce_by_shares(tsr_ctx *ctx, tsr_exchanger *x,
                                             const tsr_reduce_options *options, void *out) {
    const tsr_transport *t = x->options.transport;
    size_t element = tsr_reduction_get_size(options->reduction);
    size_t first[TSR_TRANSPORT_RANKS_MAX + 1];
    tsr_all_reduce_share(t, options, first);
    TRY(ctx,
        x->kind->reduce_scatter(ctx, x, options, first, (char *)out + first[t->rank] * element));
    for (uint32_t r = 0; r <= t->rank_count; r++) first[r] *= element;
    return x->kind->all_gather(ctx, x, out, first);
}

static tsr_result open_named(tsr_ctx *ctx, const tsr_exchanger_options *options,
                             tsr_exchanger **out_exchanger) {
    const char *wanted = options->transport->exchange;
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        if (strcmp(rows[i].name, wanted) != 0) continue;
        tsr_result result = rows[i].kind->open(ctx, options, out_exchanger);
        if (result.code) return tsr_error_prefix(ctx, result, "exchange by %s", wanted);
        snprintf((*out_exchanger)->reason, TSR_EXCHANGE_REASON_MAX, "requested");
        return TSR_SUCCESS;
    }
    char known[64] = "";
    for (size_t i = 0, at = 0; i < TSR_COUNT(rows) && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, ", %s", rows[i].name);
    FAIL(ctx, TSR_USAGE, "exchange '%s' is unknown; expected auto%s", wanted, known);
}

tsr_result tsr_exchanger_open(tsr_ctx *ctx, const tsr_exchanger_options *options,
                              tsr_exchanger **out_exchanger) {
    char reason[TSR_EXCHANGE_REASON_MAX] = "the fastest way";
    if (options->device->type->shares_memory)
        return tsr_exchange_direct.open(ctx, options, out_exchanger);
    if (options->transport->exchange && strcmp(options->transport->exchange, "auto") != 0)
        return open_named(ctx, options, out_exchanger);
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        tsr_ctx trial = tsr_ctx_fork(ctx);
        tsr_result result = rows[i].kind->open(&trial, options, out_exchanger);
        if (!result.code) {
            memcpy((*out_exchanger)->reason, reason, sizeof reason);
            return TSR_SUCCESS;
        }
        if (result.code == TSR_RANK || i + 1 == TSR_COUNT(rows))
            return tsr_error_adopt(ctx, &trial);
        snprintf(reason, sizeof reason, "not %s: %.*s", rows[i].name, TSR_EXCHANGE_REASON_MAX - 32,
                 trial.error.text);
    }
    TSR_ASSERT(!"kinds.def has rows");
    return TSR_SUCCESS;
}

void tsr_exchanger_close(tsr_exchanger *x) {
    if (x) x->kind->close(x);
}
