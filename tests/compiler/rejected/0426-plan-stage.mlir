// SPDX-License-Identifier: Apache-2.0
// run: -tsched-verify -tsched-apply
tsched.pipeline.region(schedule = "1f1b") attributes {stages = 2, microbatch = 3} {
  %0 = tsched.stage @s() on 0
}
