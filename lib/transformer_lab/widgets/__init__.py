"""Controls + experiment + picture, held together by one shell: `Explorer`."""
