/* SPDX-License-Identifier: Apache-2.0
 *
 * The learning rate of each step, for metrics and charts: that of each optimizer of the training
 * entry, before the factors of parameter groups.
 *
 *     tsr_rates rates;
 *     tsr_rates_find(tsr_model_get_identity(model), "train", &rates);
 *     double lr = tsr_rate_at(&rates.items[0], step);
 */
#ifndef TSR_TOOLS_RUN_RATES_H
#define TSR_TOOLS_RUN_RATES_H

#include "tessera/identity.h"

enum { TSR_RATES_MAX = 16, TSR_RATE_NAME_MAX = 255 };

typedef struct tsr_rate {
    const char *name; /* "lr", or "train.2.lr"; borrowed from the identity */
    double lr;
    /* `lr_schedule` of docs/language.md; warm-up alone or "constant": total_steps 0. */
    double warmup_steps, total_steps, final;
    bool is_cosine;
} tsr_rate;

typedef struct tsr_rates {
    tsr_rate items[TSR_RATES_MAX];
    size_t count; /* further optimizers are left out */
} tsr_rates;

void tsr_rates_find(const tsr_identity *identity, const char *entry, tsr_rates *out_rates);
/* Steps count from 1. */
double tsr_rate_at(const tsr_rate *rate, uint64_t step);

#endif
