/* Programs that open lib/librkllmrt.so by a path of their own get this library, where LD_AUDIT names it (``rknnlite exec``).
 *
 * The dynamic linker loads an auditor into a space of its own and asks it about each name; nothing else of the library is used there.
 */
#include "rkllm_client.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#define NAME "librkllmrt.so"

PUBLIC unsigned int la_version(unsigned int version);
PUBLIC char *la_objsearch(const char *name, uintptr_t *cookie, unsigned int flag);

unsigned int la_version(unsigned int version)
{
    return version;
}

char *la_objsearch(const char *name, uintptr_t *cookie, unsigned int flag)
{
    const char *last = strrchr(name, '/');
    Dl_info here;
    (void)cookie;
    (void)flag;
    if (strcmp(last ? last + 1 : name, NAME) == 0 && dladdr(&library, &here) && here.dli_fname)
        return (char *)here.dli_fname;
    return (char *)name;
}
