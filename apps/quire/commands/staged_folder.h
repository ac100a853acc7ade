// A folder that is there whole or not at all: it is filled under another name, beside its place,
// and renamed at the end. What an interrupted run left there is deleted by the next one.
#pragma once

#include <filesystem>
#include <string>

#include "base/io.h"
#include "base/result.h"

namespace quire::commands {

class StagedFolder {
 public:
    // For a disk store in `place`, which must be missing or an empty folder, and no mount point.
    // invalid: it is not, or the other name is somebody else's; busy: another process fills it; io.
    static Result<StagedFolder> create(const std::string& place, IoEngine& io);
    StagedFolder(StagedFolder&& other) noexcept;
    StagedFolder& operator=(StagedFolder&&) = delete;
    ~StagedFolder();  // deletes what was not committed

    // Where to write.
    std::string path() const { return staged_.string(); }
    // To its place, durably. REQUIRES: nobody has files in it open.
    Status commit();

 private:
    StagedFolder(std::filesystem::path place, std::filesystem::path staged)
        : place_(std::move(place)), staged_(std::move(staged)) {}

    std::filesystem::path place_, staged_;  // staged_ empty: nothing is left to delete
};

// What the name under which it is filled ends with.
inline constexpr char kStagedSuffix[] = ".quire-transcoding";

}  // namespace quire::commands
