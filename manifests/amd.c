/* SPDX-License-Identifier: Apache-2.0 */
#include "manifests/amd.h"

#include "runtime/base/array.h"

#include <string.h>

enum { GENERIC = 0x10000 };

static const tsr_amd gpus[] = {
#define X(name, arch, generic, ...) {name, arch, generic, __VA_ARGS__},
#include "manifests/amd.def"
#undef X
};

const tsr_amd *tsr_amd_find(const char *name) {
    size_t length = strcspn(name, ":");
    for (size_t i = 0; i < TSR_COUNT(gpus); i++)
        if (strncmp(gpus[i].name, name, length) == 0 && gpus[i].name[length] == 0) return &gpus[i];
    return NULL;
}

const tsr_amd *tsr_amd_get(uint32_t arch) {
    for (size_t i = 0; i < TSR_COUNT(gpus); i++)
        if (gpus[i].arch == arch) return &gpus[i];
    return NULL;
}

bool tsr_amd_is_generic(uint32_t arch) { return arch >= GENERIC; }

bool tsr_amd_runs(uint32_t code, uint32_t gpu) {
    const tsr_amd *row = tsr_amd_get(gpu);
    return row && (code == gpu || (row->generic && code == row->generic));
}

static uint32_t round_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }
static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

uint32_t tsr_amd_waves(const tsr_fatbin_kernel *kernel, uint32_t arch) {
    enum { SCALARS_UNIT = 16 };
    const tsr_amd *gpu = tsr_amd_get(arch);
    if (!gpu || !kernel->registers) return 0;
    uint32_t waves =
        least(gpu->waves, gpu->registers / round_up(kernel->registers, gpu->registers_unit));
    if (gpu->scalar_registers && kernel->scalar_registers)
        waves =
            least(waves, gpu->scalar_registers / round_up(kernel->scalar_registers, SCALARS_UNIT));
    uint32_t bytes = round_up(kernel->shared_bytes + kernel->static_bytes, gpu->shared_unit);
    if (!bytes) return waves;
    uint32_t of_block = (kernel->threads + gpu->wave_lanes - 1) / gpu->wave_lanes;
    return least(waves, round_up(gpu->shared_bytes / bytes * of_block, gpu->simds) / gpu->simds);
}
