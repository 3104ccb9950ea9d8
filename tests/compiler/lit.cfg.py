# SPDX-License-Identifier: Apache-2.0
"""FileCheck tests of the compiler: every .mlir file here has RUN lines."""
import os
import sys

import lit.formats

config.name = 'tessera'
config.test_format = lit.formats.ShTest(True)
config.suffixes = ['.mlir']
config.excludes = ['inputs', 'rejected']
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.build_dir
config.environment['PATH'] = os.pathsep.join(
    [config.tools_dir, os.path.join(config.build_dir, 'target'), config.llvm_tools_dir, os.environ['PATH']])
config.substitutions.append(('%examples', config.examples_dir))
config.substitutions.append(('%python', sys.executable))
