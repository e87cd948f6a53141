//! Real models, where `FORMWORK_TEST_MODELS` names a folder with their files.
