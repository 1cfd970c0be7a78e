// Functions that a library has once though its code is there for several kinds of CPU, each of them
// in a namespace of its own: their symbols don't follow the namespace.
#pragma once

#ifdef CUVIL_HAS_VARIANTS
#define CUVIL_SHARED(name) __asm__("cuvil_shared_" #name)
#else
#define CUVIL_SHARED(name)
#endif
