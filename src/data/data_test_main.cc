// main() of tests that read ORC: such a program starts itself as the decoder.

#include <gtest/gtest.h>

#include "data/orc_decoder.h"

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == partforge::data::kOrcDecoderWord) {
    return partforge::data::RunOrcDecoder();
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
