// Looks at a board in all the ways that programs in C and C++ have; prints a line for each.
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>

static const char *const compatible = "/proc/device-tree/compatible";

int main()
{
    char text[256] = {}, path[PATH_MAX] = {};
    struct utsname machine;
    uname(&machine);
    std::cout << "uname " << machine.machine << "\n";

    std::string words;
    std::getline(std::ifstream(compatible), words, '\0');
    std::cout << "ifstream " << words << "\n";

    int fd = open(compatible, O_RDONLY);
    std::cout << "open " << read(fd, text, sizeof text - 1) << "\n";
    close(fd);
    fd = openat(AT_FDCWD, compatible, O_RDONLY | O_CLOEXEC);
    std::cout << "openat " << (fd >= 0) << "\n";
    close(fd);

    FILE *file = fopen("/proc/device-tree/model", "rb");
    std::cout << "fopen " << (file && fread(text, 1, 6, file) == 6 ? std::string(text, 6) : "-") << "\n";
    if (file)
        fclose(file);

    struct stat status;
    struct statx more;
    std::cout << "stat " << stat(compatible, &status) << lstat(compatible, &status) << fstatat(AT_FDCWD, compatible, &status, 0)
              << statx(AT_FDCWD, compatible, 0, STATX_BASIC_STATS, &more) << access(compatible, R_OK)
              << faccessat(AT_FDCWD, compatible, F_OK, 0) << "\n";
    std::cout << "node " << (stat("/dev/dri/renderD129", &status) == 0 && S_ISCHR(status.st_mode)) << "\n";
    std::cout << "readlink " << std::string(text, readlink("/proc/device-tree", text, sizeof text)) << "\n";
    std::cout << "realpath " << realpath("/proc/device-tree/compatible", path) << "\n";

    DIR *folder = opendir("/sys/class/devfreq");
    for (struct dirent *entry = nullptr; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            std::cout << "opendir " << entry->d_name << "\n";
    glob_t found = {};
    if (glob("/sys/class/devfreq/*npu*/load", 0, nullptr, &found) == 0)
        std::cout << "glob " << found.gl_pathv[0] << "\n";
    chdir("/sys/firmware/devicetree/base");
    std::cout << "chdir " << getcwd(path, sizeof path) << " " << (access("model", F_OK) == 0) << "\n";
    std::cout << "others " << access("/proc/self/status", F_OK) << access("/proc/device-treetop", F_OK) << "\n";
}
