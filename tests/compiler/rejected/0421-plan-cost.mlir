// SPDX-License-Identifier: Apache-2.0
// run: -tsched-verify -tsched-apply
%g = tsched.fuse @f() {time_ns = -1 : i64}
