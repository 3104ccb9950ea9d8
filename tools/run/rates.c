/* SPDX-License-Identifier: Apache-2.0
 *
 * The formula is that of compiler/graph/ops/learning_rate.c, which steps compute.
 */
#include "tools/run/rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *find_text(const tsr_identity *identity, const char *prefix, int length,
                             const char *name) {
    char full[TSR_RATE_NAME_MAX + 64];
    snprintf(full, sizeof full, "%.*s%s", length, prefix, name);
    for (size_t i = 0; i < identity->hyperparameter_count; i++)
        if (strcmp(identity->hyperparameters[i].name, full) == 0)
            return identity->hyperparameters[i].value;
    return "";
}

/* 0 if the name is not listed. */
static double find_number(const tsr_identity *identity, const char *prefix, int length,
                          const char *name) {
    return strtod(find_text(identity, prefix, length, name), NULL);
}

/* Returns the length of "train." or "train.2." in "train.2.lr"; 0 for "lr"; -1 for other names, and
 * for optimizers of other entries. */
static int prefix_of(const char *name, const char *entry) {
    size_t length = strlen(name), entry_length = strlen(entry);
    if (strcmp(name, "lr") == 0) return 0;
    if (length < 3 || length > TSR_RATE_NAME_MAX || strcmp(name + length - 3, ".lr") != 0)
        return -1;
    bool of_entry = strncmp(name, entry, entry_length) == 0 && name[entry_length] == '.';
    return of_entry ? (int)length - 2 : -1;
}

void tsr_rates_find(const tsr_identity *identity, const char *entry, tsr_rates *out_rates) {
    *out_rates = (tsr_rates){.count = 0};
    for (size_t i = 0; i < identity->hyperparameter_count; i++) {
        const tsr_hyperparameter *one = &identity->hyperparameters[i];
        int length = prefix_of(one->name, entry);
        if (length < 0 || out_rates->count == TSR_RATES_MAX) continue;
        tsr_rate *rate = &out_rates->items[out_rates->count++];
        const char *kind = find_text(identity, one->name, length, "lr_schedule.kind");
        bool decays = strcmp(kind, "linear") == 0 || strcmp(kind, "cosine") == 0;
        *rate = (tsr_rate){
            .name = one->name,
            .lr = strtod(one->value, NULL),
            .warmup_steps = find_number(identity, one->name, length, "lr_schedule.warmup_steps"),
            .total_steps =
                decays ? find_number(identity, one->name, length, "lr_schedule.total_steps") : 0,
            .final = find_number(identity, one->name, length, "lr_schedule.final"),
            .is_cosine = strcmp(kind, "cosine") == 0};
    }
}

double tsr_rate_at(const tsr_rate *rate, uint64_t step) {
    static const double pi = 3.14159265358979323846;
    double t = (double)step, lr = rate->lr;
    if (rate->warmup_steps > 0) lr *= fmin(t / rate->warmup_steps, 1);
    if (rate->total_steps <= 0) return lr;
    double p = (t - rate->warmup_steps) / (rate->total_steps - rate->warmup_steps);
    p = fmin(fmax(p, 0), 1);
    double d = rate->is_cosine ? (1 + cos(pi * p)) / 2 : 1 - p;
    return lr * (rate->final + (1 - rate->final) * d);
}
