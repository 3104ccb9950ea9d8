/* SPDX-License-Identifier: Apache-2.0
 *
 * Used in a build without an assembler: the driver compiles the hash kernel.
 */
#include "runtime/device/cuda_ptx.h"

const tsr_fatbin_image tsr_cuda_leaves_codes[] = {{.bytes = NULL}};
const uint32_t tsr_cuda_leaves_code_count = 0;
