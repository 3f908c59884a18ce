"""Operations: states, who asked, who approved, who claims them."""
