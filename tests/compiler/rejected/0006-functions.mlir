// SPDX-License-Identifier: Apache-2.0
// expand: 65537 func.func private @f{i}()
