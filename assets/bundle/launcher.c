/*
 * Starts Python inside the process that the system started, so that on a Mac the menu bar, the
 * dock and the privacy questions belong to the app. Everything is found from this file's own
 * place: the bundle may be moved.
 *
 * PYTHON_BELOW: the interpreter's prefix, seen from the folder of this file.
 * PLAIN_PYTHON: behave as python3 itself, for the few libraries that start it.
 */
#include <Python.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#else
#include <unistd.h>
#endif

static int own_folder(char *folder) {
#ifdef __APPLE__
    char given[PATH_MAX];
    uint32_t size = sizeof given;
    if (_NSGetExecutablePath(given, &size) != 0 || realpath(given, folder) == NULL) return -1;
#else
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length < 0) return -1;
    folder[length] = '\0';
#endif
    char *slash = strrchr(folder, '/');
    if (slash == NULL) return -1;
    *slash = '\0';
    return 0;
}

static PyStatus configure(PyConfig *config, const char *home, int argc, char **argv) {
    char executable[2 * PATH_MAX];
    snprintf(executable, sizeof executable, "%s/bin/python3", home);
    PyStatus status = PyConfig_SetBytesString(config, &config->home, home);
    if (!PyStatus_Exception(status))
        status = PyConfig_SetBytesString(config, &config->executable, executable);
    if (!PyStatus_Exception(status))
        status = PyConfig_SetBytesString(config, &config->program_name, executable);
#ifndef PLAIN_PYTHON
    config->parse_argv = 0;
    config->install_signal_handlers = 1;
    /* A file written into a signed app would break its seal. */
    config->write_bytecode = 0;
    if (!PyStatus_Exception(status))
        status = PyConfig_SetBytesString(config, &config->run_module, "app");
#endif
    if (!PyStatus_Exception(status)) status = PyConfig_SetBytesArgv(config, argc, argv);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(config);
    return status;
}

int main(int argc, char **argv) {
    char folder[PATH_MAX], below[2 * PATH_MAX], home[PATH_MAX];
    if (own_folder(folder) != 0) {
        fprintf(stderr, "fullstop: cannot find its own folder\n");
        return 1;
    }
    snprintf(below, sizeof below, "%s/%s", folder, PYTHON_BELOW);
    if (realpath(below, home) == NULL) {
        fprintf(stderr, "fullstop: %s is missing; unpack the whole bundle\n", below);
        return 1;
    }

    /* Without a path, a compiler that MLX finds on Linux does not find its linker. */
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 0);
    PyPreConfig before;
    PyConfig config;
#ifdef PLAIN_PYTHON
    PyPreConfig_InitPythonConfig(&before);
    PyConfig_InitPythonConfig(&config);
#else
    PyPreConfig_InitIsolatedConfig(&before);
    PyConfig_InitIsolatedConfig(&config);
#endif
    before.utf8_mode = 1; /* programs started from a desktop have no locale */
    PyStatus status = Py_PreInitialize(&before);
    if (!PyStatus_Exception(status)) status = configure(&config, home, argc, argv);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) Py_ExitStatusException(status);
    return Py_RunMain();
}
