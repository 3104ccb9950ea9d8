/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of features.def.
 */
#include "compiler/ir/targets/features.h"

#include "runtime/base/array.h"

#include <string.h>

enum { NVIDIA = TSR_VENDOR_NVIDIA, AMD = TSR_VENDOR_AMD }; /* as the table names them */

static const tsr_feature features[] = {
#define FEATURE(name, vendor, order, threads, registers, shared_bytes, cluster)                    \
    {name, (tsr_vendor)vendor, order, threads, registers, shared_bytes, cluster},
#include "compiler/ir/targets/features.def"
};

static const tsr_requirement requirements[] = {
#define REQUIREMENT(begin, vendor, feature) {begin, (tsr_vendor)vendor, feature},
#include "compiler/ir/targets/features.def"
};

const tsr_feature *tsr_feature_find(const char *name) {
    for (size_t i = 0; name && i < TSR_COUNT(features); i++)
        if (strcmp(features[i].name, name) == 0) return &features[i];
    return NULL;
}

bool tsr_feature_includes(const tsr_feature *has, const tsr_feature *needs) {
    bool alone = needs->vendor == TSR_VENDOR_AMD || needs->name[strlen(needs->name) - 1] == 'a';
    if (!has || has->vendor != needs->vendor) return false;
    if (needs->vendor == TSR_VENDOR_AMD && strcmp(needs->name, "gfx90a") == 0)
        return has->order >= 90 && has->order < 100; /* CDNA */
    if (needs->vendor == TSR_VENDOR_AMD && strcmp(needs->name, "gfx1100") == 0)
        return has->order >= 110; /* RDNA 3 and 4 */
    return alone ? has == needs : has->order >= needs->order;
}

const tsr_requirement *tsr_feature_requirement(const char *text, tsr_vendor vendor) {
    const tsr_requirement *found = NULL;
    for (size_t i = 0; i < TSR_COUNT(requirements); i++)
        if (requirements[i].vendor == vendor &&
            strncmp(text, requirements[i].begin, strlen(requirements[i].begin)) == 0 &&
            (!found || strlen(requirements[i].begin) > strlen(found->begin)))
            found = &requirements[i];
    return found;
}

bool tsr_feature_has(const tsr_feature *has, const char *instruction) {
    const tsr_requirement *found = has ? tsr_feature_requirement(instruction, has->vendor) : NULL;
    return has && (!found || tsr_feature_includes(has, tsr_feature_find(found->feature)));
}
