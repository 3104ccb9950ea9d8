/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to manifests/: what the two readers of a deployment share, and what reading and writing
 * do.
 */
#ifndef TSR_MANIFESTS_DEPLOYMENT_READ_H
#define TSR_MANIFESTS_DEPLOYMENT_READ_H

#include "manifests/deployment.h"
#include "manifests/json_read.h"

TSR_RESULT tsr_deployment_read_axis(tsr_json_reader *r, const struct cJSON *object,
                                    tsr_deployment_axis *axis);
TSR_RESULT tsr_deployment_read_collective(tsr_json_reader *r, const struct cJSON *object,
                                          tsr_deployment_collective *collective);
TSR_RESULT tsr_deployment_read_recompute(tsr_json_reader *r, const struct cJSON *object,
                                         tsr_deployment_recompute *recompute);

/* Member `key` of the object, with a comma before it; nothing where there are no pipelines. */
void tsr_deployment_write_pipelines(const tsr_deployment *deployment, const char *key,
                                    tsr_buffer *out);
/* None where the object has no such member. */
TSR_RESULT tsr_deployment_read_pipelines(tsr_json_reader *r, const struct cJSON *object,
                                         const char *key, tsr_deployment *deployment);

/* That the entries and tensors exist which the deployment names, as far as the parts are there. */
TSR_RESULT tsr_deployment_check_names(tsr_ctx *ctx, const tsr_config *config,
                                      const tsr_deployment *deployment, unsigned parts,
                                      tsr_code code);

#endif
