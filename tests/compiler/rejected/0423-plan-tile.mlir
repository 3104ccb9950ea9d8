// SPDX-License-Identifier: Apache-2.0
// run: -tsched-verify -tsched-apply
%g = tsched.fuse @f()
tsched.tile %g candidates = [[1, 2], [3]]
