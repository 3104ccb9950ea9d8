/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that a program needs, and the memory that it has used.
 */
#ifndef TSR_TESSERA_MEMORY_H
#define TSR_TESSERA_MEMORY_H

#include "tessera/result.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that tsr_model_open allocates: tensors, padded to the aligned begin of the workspace
 * (a cache line of a GPU); memory prepared from them, workspace, inputs and outputs. handler_bytes
 * is the part of the workspace for entries that handle failures; vrank_bytes is the memory of one
 * virtual rank, sum_bytes that of one set of sums over them (there are several sets),
 * part_bytes that of the rank's parts of sums that are scattered during a loop, and round_bytes
 * that of data from other ranks during these exchanges. Host memory, not in the total:
 * offloaded_bytes for offloaded values, including offloaded_handler_bytes for the entries that
 * handle failures. */
typedef struct tsr_memory_plan {
    uint64_t tensor_bytes, prepacked_bytes, workspace_bytes, port_bytes, total_bytes, handler_bytes;
    uint64_t vrank_bytes, sum_bytes, part_bytes, round_bytes;
    uint64_t offloaded_bytes, offloaded_handler_bytes;
} tsr_memory_plan;

/* The part of a workspace that runs have written, in full lines of the size to which
 * its buffers are aligned: the end of the last written line, and the size of all written
 * lines. */
typedef struct tsr_workspace_use {
    uint64_t planned_bytes, reached_bytes, written_bytes;
} tsr_workspace_use;

#ifdef __cplusplus
}
#endif

#endif
