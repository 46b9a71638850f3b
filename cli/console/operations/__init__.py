"""Operations in the console: work in progress, what it waits for, and actions."""
