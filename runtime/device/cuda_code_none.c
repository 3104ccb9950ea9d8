/* SPDX-License-Identifier: Apache-2.0
 *
 * Of a build without an assembler: the driver translates the kernel that hashes.
 */
#include "runtime/device/cuda_ptx.h"

const tsr_fatbin_image tsr_cuda_leaves_codes[] = {{.bytes = NULL}};
const uint32_t tsr_cuda_leaves_code_count = 0;
