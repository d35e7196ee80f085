select who, pages from {{ ref('pages_by_reader') }} where pages >= 5
