/* SPDX-License-Identifier: Apache-2.0
 *
 * Features of devices, their limits, and the instructions that need them (features.def).
 */
#ifndef TSR_COMPILER_IR_FEATURES_H
#define TSR_COMPILER_IR_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum tsr_vendor { TSR_VENDOR_NVIDIA, TSR_VENDOR_AMD } tsr_vendor;

typedef struct tsr_feature {
    const char *name; /* "sm_90a" */
    tsr_vendor vendor;
    int order;
    int64_t threads, registers, shared_bytes, cluster; /* the maxima of one program */
} tsr_feature;

/* NULL for an unknown name, or NULL. */
const tsr_feature *tsr_feature_find(const char *name);

/* May code for a device with `has` contain an instruction that begins with this text ("wgmma.")?
 * features.def decides; NULL: the device is unknown, so no. */
bool tsr_feature_has(const tsr_feature *has, const char *instruction);

/* An instruction that begins with this text needs this feature. */
typedef struct tsr_requirement {
    const char *begin;
    tsr_vendor vendor;
    const char *feature;
} tsr_requirement;

/* The requirement of the instruction at `text`, the longest that fits; NULL if it has none. */
const tsr_requirement *tsr_feature_requirement(const char *text, tsr_vendor vendor);
/* Does the feature `has` include the feature `needs`? */
bool tsr_feature_includes(const tsr_feature *has, const tsr_feature *needs);

#endif
