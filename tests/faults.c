/* Preloaded into a test's Python: makes reads of chosen files fail with a chosen errno.
 *
 * fault_set(path, errno) is called through ctypes; errno 0 takes all faults back. Plain files can be
 * missing, closed or blocking by themselves; a driver's EAGAIN, EIO or ENODATA they cannot play.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static char faulty[PATH_MAX];
static int fault;

void fault_set(const char *path, int error)
{
	if (error == 0 || realpath(path, faulty) == NULL)
		faulty[0] = 0;
	fault = error;
}

static int fails(int descriptor)
{
	char link[64], path[PATH_MAX];
	ssize_t length;

	if (faulty[0] == 0)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
	extern ssize_t readlink(const char *, char *, size_t);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return 0;
	path[length] = 0;
	return strcmp(path, faulty) == 0;
}

ssize_t read(int descriptor, void *buffer, size_t size)
{
	static ssize_t (*real)(int, void *, size_t);

	if (real == NULL)
		real = dlsym(RTLD_NEXT, "read");
	if (fails(descriptor)) {
		errno = fault;
		return -1;
	}
	return real(descriptor, buffer, size);
}
